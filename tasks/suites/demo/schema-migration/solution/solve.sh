#!/bin/bash
set -euo pipefail

cp /solution/0002_cents_and_states.sql /app/migrations/
/app/bin/migrate /app/data/shop.db
