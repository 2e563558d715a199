#!/bin/bash
set -euo pipefail

cp /solution/clean.py /app/clean.py
python3 /app/clean.py /app/data/customers_raw.csv /app/out/customers.csv /app/out/rejected.csv
wc -l /app/out/*
