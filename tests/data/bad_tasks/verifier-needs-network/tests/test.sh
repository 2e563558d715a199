#!/bin/bash
# Grades the task: 1 where every test passes, else 0.
mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
cd /tests || exit 0
# Stands for an installer that is fetched: it needs a way out, and says what it wanted.
if ! grep -q '^eth0' /proc/net/route; then
  echo "curl: (6) Could not resolve host: tools.example.com"
  exit 0
fi
if /usr/bin/python3 -I -B -m pytest -p no:cacheprovider -c /dev/null --rootdir=/tests \
  --confcutdir=/tests -rA test_outputs.py; then
  echo 1 >/logs/verifier/reward.txt
fi
