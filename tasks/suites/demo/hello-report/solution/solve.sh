#!/bin/bash
set -euo pipefail

echo 'billing: ready for release 4.2' >/app/status.txt
