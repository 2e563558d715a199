#!/bin/bash
# Continuous integration for one project.
# usage: run.sh [PROJECT]
set -u
unset CDPATH

project=${1:-.}
if [ ! -d "$project" ]; then
    echo "run.sh: $project is not a folder" >&2
    exit 2
fi
cd -- "$project" || exit 2
mkdir -p build
rm -f build/report.json
: >build/ci.log

result=passed
stages=()

stage() {
    local name=$1 status=passed
    { echo "== $name"; "$2"; } 2>&1 | tee -a build/ci.log
    if [ "${PIPESTATUS[0]}" -ne 0 ]; then
        status=failed
        result=failed
    fi
    stages+=("{\"name\": \"$name\", \"status\": \"$status\"}")
}

shell_syntax() {
    local script failed=0
    for script in scripts/*.sh; do
        [ -f "$script" ] || continue # no script at all leaves the pattern itself
        bash -n "$script" || failed=1
    done
    return $failed
}

python_syntax() {
    local file failed=0
    while IFS= read -r -d '' file; do
        python3 -c 'import sys; compile(open(sys.argv[1], "rb").read(), sys.argv[1], "exec")' \
            "$file" || failed=1
    done < <(find src -type f -name '*.py' -print0)
    return $failed
}

unit_tests() {
    PYTHONPATH=src python3 -m unittest discover -s tests
}

stage shell-syntax shell_syntax
stage python-syntax python_syntax
stage unit-tests unit_tests

printf '%s\n' "${stages[@]}" | jq -s --arg result "$result" '{result: $result, stages: .}' \
    >build/report.json
[ "$result" = passed ]
