#!/bin/bash
set -euo pipefail
cd /app/site

# Who may come in: dev and the group web; nobody else anywhere.
find . -exec chgrp web {} +
find . -type d -exec chmod u=rwx,g=rx,o= {} +
find . -type f -exec chmod u=rw,g=r,o= {} +

# Folders of uploads hand their group on.
find uploads -type d -exec chmod g+ws {} +
find private -exec chmod go= {} +
find bin -type f -exec chmod u=rwx,go= {} +

cp /solution/publish bin/publish
chmod u=rwx,go= bin/publish
