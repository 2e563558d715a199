#!/bin/bash
# Grades the task: 1 where every check passes, else 0.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
unset PYTEST_ADDOPTS PYTEST_PLUGINS BASH_ENV ENV CDPATH

mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
cd /tests || exit 0

# Nothing that the agent left lying about may steer the grading: no user site, no configuration
# file, no conftest, no plug-in. What hangs is wrong: it is ended before the verifier's own limit.
if timeout --kill-after=2 110 /usr/bin/python3 -I -B -m pytest -q --tb=short --noconftest \
    -c /dev/null --rootdir=/tests -p no:cacheprovider /tests/checks.py; then
    echo 1 >/logs/verifier/reward.txt
fi
