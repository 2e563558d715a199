#!/bin/bash
# The users, and a site with modes as they have grown.
set -euo pipefail

groupadd --gid 1500 web
useradd --uid 1501 --gid web --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin www
useradd --uid 1000 --create-home --shell /bin/bash --groups web dev

cp -r /build/site /app/site
cd /app/site
chown -R dev:dev .
chmod -R u=rwX,go=rX .
chmod 755 .
chmod 600 public/index.html "public/old pages/contact us.html"
chmod 700 public/blog public/blog/2026
chmod 777 "public/old pages"
chmod 755 public/style.css drafts/blog/2027/plans.html
chmod 666 private/database.env
chmod 755 private private/keys/deploy.key
chmod 777 uploads uploads/new
chmod 666 uploads/2026/may/photo.txt
chgrp -R web uploads/2026
chmod 755 uploads/2026 uploads/2026/may
chmod 644 bin/publish bin/check-links
chmod 644 -- "public/-draft-.html"
