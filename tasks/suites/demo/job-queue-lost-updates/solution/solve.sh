#!/bin/bash
set -euo pipefail

cp /solution/store.py /app/jobqueue/store.py
python3 -c 'import sys; sys.path.insert(0, "/app"); import jobqueue.store'
