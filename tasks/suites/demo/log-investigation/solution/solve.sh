#!/bin/bash
set -euo pipefail

python3 /solution/investigate.py >/app/answer.json
cat /app/answer.json
