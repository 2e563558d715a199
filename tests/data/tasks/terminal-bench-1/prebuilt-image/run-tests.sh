#!/bin/bash
echo "SWEBench results starts here"
[ -f /app/done ] && echo PASSED || echo FAILED
echo "SWEBench results ends here"
