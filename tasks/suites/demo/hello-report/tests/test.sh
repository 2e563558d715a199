#!/bin/bash
# Grades the task: 1 where the file is exactly as asked, else 0.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset BASH_ENV ENV CDPATH

mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
cd /tests || exit 0

if timeout --kill-after=2 50 /usr/bin/python3 -I -B /tests/checks.py; then
    echo 1 >/logs/verifier/reward.txt
fi
