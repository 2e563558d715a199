#!/bin/bash
# Grades the task: 1 where every test passes, else 0.
mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
cd /tests || exit 0
if /usr/bin/python3 -I -B -m pytest -p no:cacheprovider -c /dev/null --rootdir=/tests \
  --confcutdir=/tests -rA test_outputs.py; then
  echo 1 >/logs/verifier/reward.txt
fi
