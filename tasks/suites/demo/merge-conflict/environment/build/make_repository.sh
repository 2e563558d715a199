#!/bin/bash
# Make /app/shop: two branches, and a merge that stopped at its conflicts.
set -euo pipefail
export LC_ALL=C TZ=UTC HOME=/root

git init --quiet --initial-branch=main /app/shop
cd /app/shop
git config user.name "Sam Okafor"
git config user.email sam@shop.example
git config commit.gpgsign false

commit() { # FOLDER HOUR AUTHOR MESSAGE
    cp -r "/build/$1/." .
    find . -path ./.git -prune -o -type f -exec chmod 644 {} +
    git add --all
    export GIT_AUTHOR_DATE="2026-04-0$2:00:00+00:00" GIT_COMMITTER_DATE="2026-04-0$2:00:00+00:00"
    git -c user.name="$3" -c user.email="${3%% *}@shop.example" commit --quiet --message "$4"
}

commit base "1T09" "Sam Okafor" "Prices, receipts and reading of items"

git checkout --quiet -b feature/coupons
commit coupons-1 "2T10" "Ines Braun" "Bulk discount: 10 % off from ten pieces

net_price is line_total from now on: with the discount it is no longer the net price."
commit coupons-2 "3T15" "Ines Braun" "Coupons, and prices with a point"

git checkout --quiet main
commit main-1 "2T16" "Sam Okafor" "Charge shipping below 50 euros"
commit main-2 "6T11" "Tariq Aziz" "Print the lines of a receipt; refuse senseless quantities"

unset GIT_AUTHOR_DATE GIT_COMMITTER_DATE
git merge feature/coupons >/dev/null && exit 1
test -f .git/MERGE_HEAD
git rev-parse main feature/coupons
git status --short
