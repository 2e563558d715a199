#!/bin/bash
set -euo pipefail

python3 /solution/resolve.py >/app/requirements.lock
python3 /app/tools/install.py /app/requirements.lock /app/vendor
cat /app/requirements.lock
/app/bin/dock-report /app/data/moves.csv
