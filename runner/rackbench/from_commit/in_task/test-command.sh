#!/bin/sh
# Grades the task by the exit code of the project's own tests; whatever goes wrong leaves a clear 0.
mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
tree=$workdir
cd "$$tree" || exit 0

# The tests of the fix, over whatever is there.
(cd /tests/files && find . ! -type d -print | tar -cf - -T -) | tar -xf - -C "$$tree" || exit 0
$removals
limit=
command -v timeout >/dev/null && limit='timeout -s KILL $timeout_seconds'
if $$limit sh -c $command; then
    echo 1 >/logs/verifier/reward.txt
fi
