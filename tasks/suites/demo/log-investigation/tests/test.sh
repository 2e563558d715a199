#!/bin/bash
# Grades the task: a fifth for each of five answers, with one key per answer beside the reward.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset BASH_ENV ENV CDPATH

mkdir -p /logs/verifier
echo '{"reward": 0}' >/logs/verifier/reward.json
cd /tests || exit 0

if reward=$(timeout --kill-after=2 50 /usr/bin/python3 -I -B /tests/checks.py); then
    printf '%s\n' "$reward" | tee /logs/verifier/reward.json
fi
