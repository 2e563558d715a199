"""The job runs when it should, and does what it should, in the bare environment that cron gives."""

import errno
import os
import pwd
import signal
import stat
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

sys.path.insert(0, "/tests")

import crontab  # noqa: E402

TAB = Path("/etc/cron.d/nightly-report")
LOG = Path("/var/log/reports/nightly.log")
DATA = Path("/app/data")
REPORTS = Path("/app/reports")
PATIENCE_SECONDS = 8


@pytest.fixture(scope="module")
def job():
    (job,) = crontab.read(TAB.read_text())
    return job


@pytest.fixture
def yesterday():
    """Yesterday's date, with no report and no data of it before and after."""
    if datetime.now(UTC).strftime("%H:%M") == "23:59":
        time.sleep(61)  # the day must not change during the test
    day = str(datetime.now(UTC).date() - timedelta(days=1))
    clear(day)
    yield day
    clear(day)


def clear(day):
    (DATA / f"{day}.csv").unlink(missing_ok=True)
    (REPORTS / f"{day}.csv").unlink(missing_ok=True)
    (REPORTS / f"{day}.csv.new").unlink(missing_ok=True)


def start(job):
    """Run the job's command as cron does."""
    account = pwd.getpwnam(job.user)
    command, text = job.shell_command()
    environment = {
        "HOME": account.pw_dir,
        "LOGNAME": account.pw_name,
        "SHELL": "/bin/sh",
        "PATH": "/usr/bin:/bin",
        **job.settings,
    }
    process = subprocess.Popen(
        [environment["SHELL"], "-c", command],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
        cwd=environment["HOME"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        umask=0o022,
        start_new_session=True,
    )
    if text:
        process.stdin.write(text.encode())
    process.stdin.close()
    return process


def ended(process):
    """Wait for a command; what it printed past the log."""
    try:
        process.wait(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        kill(process)
        pytest.fail("the job did not end")
    finally:
        kill(process)
    return process.stdout.read().decode(errors="replace")


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def logged():
    return LOG.read_text(errors="replace") if LOG.exists() else ""


def wait_for_start(day, before):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while f"report for {day}: started" not in logged()[len(before) :]:
        assert time.monotonic() < deadline, "make-report was not started"
        time.sleep(0.02)


def test_the_file_is_one_that_cron_reads():
    found = TAB.lstat()
    assert stat.S_ISREG(found.st_mode)
    assert found.st_uid == 0
    assert not found.st_mode & 0o022


def test_when(job):
    assert job.minutes == {30}
    assert job.hours == {2}
    first = date(2027, 1, 1)
    for day in (first + timedelta(days=number) for number in range(800)):
        assert job.runs_on(day) == (day.isoweekday() <= 5), day


def test_who(job):
    assert job.user == "reports"


def test_the_report_of_yesterday(job, yesterday):
    (DATA / f"{yesterday}.csv").write_text("tea,1\ncoffee,20\ntea,2\n")
    before = logged()
    assert ended(start(job)) == ""
    report = REPORTS / f"{yesterday}.csv"
    assert report.read_text() == "coffee,20\ntea,3\n"
    assert report.stat().st_uid == pwd.getpwnam("reports").pw_uid
    after = logged()
    assert after.startswith(before)
    assert f"report for {yesterday}: done" in after[len(before) :]


def test_the_log_grows_and_can_be_read(job, yesterday):
    (DATA / f"{yesterday}.csv").write_text("tea,1\n")
    assert ended(start(job)) == ""
    first = logged()
    assert ended(start(job)) == ""
    assert logged().startswith(first)
    assert logged()[len(first) :].count("done") == 1
    done = subprocess.run(
        ["/usr/bin/cat", LOG], user="nobody", group="nogroup", extra_groups=[],
        capture_output=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, "others cannot read the log"


def test_errors_are_logged(job, yesterday):
    before = logged()
    assert ended(start(job)) == ""
    assert f"report for {yesterday}: no data" in logged()[len(before) :]


def slow(day):
    """Data that comes when somebody writes it: until then make-report waits."""
    os.mkfifo(DATA / f"{day}.csv", 0o644)
    os.chmod(DATA / f"{day}.csv", 0o644)


def feed(day, text):
    """Give the waiting run its data; a run that is not waiting for it is a failure."""
    deadline = time.monotonic() + PATIENCE_SECONDS / 2
    while True:
        try:
            pipe = os.open(DATA / f"{day}.csv", os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO, error
            assert time.monotonic() < deadline, "nobody reads the data"
            time.sleep(0.02)
        else:
            break
    os.write(pipe, text.encode())
    os.close(pipe)


def test_one_at_a_time(job, yesterday):
    slow(yesterday)
    before = logged()
    first = start(job)
    try:
        wait_for_start(yesterday, before)
        second = start(job)
        try:
            second.wait(timeout=PATIENCE_SECONDS / 2)
        except subprocess.TimeoutExpired:
            pytest.fail("a second run did not end at once")
        finally:
            kill(second)
        assert first.poll() is None, "the first run ended early"
        assert logged()[len(before) :].count(": started") == 1
        feed(yesterday, "tea,7\n")
        assert ended(first) == ""
        assert (REPORTS / f"{yesterday}.csv").read_text() == "tea,7\n"
    finally:
        kill(first)

    (DATA / f"{yesterday}.csv").unlink()
    (DATA / f"{yesterday}.csv").write_text("tea,8\n")
    ended(start(job))
    assert (REPORTS / f"{yesterday}.csv").read_text() == "tea,8\n", "the lock stayed"


def test_a_run_that_was_killed(job, yesterday):
    slow(yesterday)
    before = logged()
    first = start(job)
    try:
        wait_for_start(yesterday, before)
    finally:
        kill(first)
    (DATA / f"{yesterday}.csv").unlink()
    (DATA / f"{yesterday}.csv").write_text("tea,9\n")
    deadline = time.monotonic() + PATIENCE_SECONDS / 2
    report = REPORTS / f"{yesterday}.csv"
    while not report.exists() and time.monotonic() < deadline:
        ended(start(job))
    assert report.read_text() == "tea,9\n"


@pytest.mark.parametrize(
    ("path", "copy", "mode"),
    [
        ("/app/bin/make-report", "make-report.txt", 0o755),
        ("/app/tools/bin/sum-sales", "sum-sales.txt", 0o755),
        ("/etc/profile.d/reports.sh", "reports.sh.txt", 0o644),
        ("/app/data/2026-05-18.csv", "2026-05-18.csv", 0o644),
        ("/app/data/2026-05-19.csv", "2026-05-19.csv", 0o644),
    ],
)
def test_what_belongs_to_others(path, copy, mode):
    assert Path(path).read_bytes() == (Path("/tests") / copy).read_bytes()
    found = os.stat(path)
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (mode, 0)
