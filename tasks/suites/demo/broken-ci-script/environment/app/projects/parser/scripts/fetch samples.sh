#!/bin/bash
# Copies the samples of a release next to the tests.
set -eu
release=${1:?usage: fetch samples.sh RELEASE}
cp -r "/srv/samples/$release" tests/samples
