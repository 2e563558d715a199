#!/bin/bash
set -eu
grep -rn --include='*.py' 'print(' src && exit 1
exit 0
