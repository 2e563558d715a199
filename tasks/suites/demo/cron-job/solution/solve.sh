#!/bin/bash
set -euo pipefail

# cron reads no profile: the job does. Its lock goes with the process that holds it.
cat >/app/bin/nightly-report <<'S'
#!/bin/bash
set -u
. /etc/profile.d/reports.sh
exec 9>>/var/log/reports/nightly.lock
flock --nonblock 9 || { echo "a run is still going: nothing done"; exit 0; }
/app/bin/make-report "$(date --date=yesterday +%F)"
S
chmod 755 /app/bin/nightly-report

install -d -o reports -g reports -m 755 /var/log/reports
install -o reports -g reports -m 644 /dev/null /var/log/reports/nightly.log
chown reports: /app/reports

cat >/etc/cron.d/nightly-report <<'S'
30 2 * * 1-5 reports /app/bin/nightly-report >>/var/log/reports/nightly.log 2>&1
S
chmod 644 /etc/cron.d/nightly-report
