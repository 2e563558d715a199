#!/bin/bash
# Grades the task: 1 where every test passes, else 0.
mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
mkdir -p /app/tests
cp /tests/test_outputs.py /app/tests/
cd /app || exit 0
if /usr/bin/python3 -B -m pytest -p no:cacheprovider -rA tests; then
  echo 1 >/logs/verifier/reward.txt
fi
