#!/bin/bash
set -euo pipefail

install -m 755 /solution/run.sh /app/ci/run.sh
