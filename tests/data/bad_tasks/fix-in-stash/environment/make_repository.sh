# Makes the history that the task begins with.
cd /app
export GIT_AUTHOR_NAME=Kim GIT_AUTHOR_EMAIL=kim@example.com
export GIT_COMMITTER_NAME=Kim GIT_COMMITTER_EMAIL=kim@example.com
export GIT_AUTHOR_DATE=2026-01-05T10:00:00Z GIT_COMMITTER_DATE=2026-01-05T10:00:00Z
git init -q -b main .
git add .
git commit -q -m 'Prices'
cp /build/fixed.py price.py
git stash -q
rm -rf .git/hooks
