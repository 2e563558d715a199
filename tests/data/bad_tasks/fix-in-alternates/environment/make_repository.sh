# Makes the history that the task begins with.
cd /app
export GIT_AUTHOR_NAME=Kim GIT_AUTHOR_EMAIL=kim@example.com
export GIT_COMMITTER_NAME=Kim GIT_COMMITTER_EMAIL=kim@example.com
export GIT_AUTHOR_DATE=2026-01-05T10:00:00Z GIT_COMMITTER_DATE=2026-01-05T10:00:00Z
git init -q -b main .
git add .
git commit -q -m 'Prices'
mkdir -p /srv/pool/objects
id=$(GIT_OBJECT_DIRECTORY=/srv/pool/objects git hash-object -w /build/fixed.py)
test -n "$id"
echo /srv/pool/objects >.git/objects/info/alternates
rm -rf .git/hooks
