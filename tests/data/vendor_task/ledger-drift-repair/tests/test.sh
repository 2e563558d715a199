#!/bin/bash
set -uo pipefail

mkdir -p /logs/verifier
chmod 0755 /logs/verifier
echo 0 > /logs/verifier/reward.txt

TBENCH_TEST_ID="${TBENCH_TEST_ID:-}"
chosen=(/tests/test_outputs.py)
if [ -n "$TBENCH_TEST_ID" ]; then
    # An id that the manifest does not have leaves the 0.
    mapfile -t chosen < <(python3 /tests/choose.py /tests/test_manifest.json "$TBENCH_TEST_ID")
    [ "${#chosen[@]}" -gt 0 ] ||
    exit 0
fi

python3 -m pytest --ctrf /logs/verifier/ctrf.json "${chosen[@]}" -rA
rc=$?

if [ "$rc" -eq 0 ]; then
    echo 1 > /logs/verifier/reward.txt
fi

exit 0
