#!/bin/sh
# Grades the task; whatever goes wrong leaves a clear 0.
mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
# Without site: what the project adds to Python's path must not run as part of the judge.
cd / && exec python3 -I -S -B /tests/judge.py
