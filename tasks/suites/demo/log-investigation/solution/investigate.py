"""Join the gateway's answers with what payments said about the same request."""

import gzip
import json
import re
import sys
from pathlib import Path

LOGS = Path("/app/logs")
ANSWERED = re.compile(r'(\S+) \S+ "([^"]+)" (\d+) req=(\w+) customer=(\w+) ')
EXHAUSTED = re.compile(r"\[req=(\w+)\] connection pool exhausted")

exhausted = set(EXHAUSTED.findall((LOGS / "payments.log").read_text()))
lines = gzip.decompress((LOGS / "gateway.log.1.gz").read_bytes()).decode().splitlines()
lines += (LOGS / "gateway.log").read_text().splitlines()
failed, hit, served = [], set(), set()
for line in lines:  # both files are in the order of time
    when, route, status, request, customer = ANSWERED.match(line).groups()
    if 500 <= int(status) <= 599 and request in exhausted:
        failed.append(when)
        hit.add(customer)
    elif route == "POST /v1/checkout" and 200 <= int(status) <= 299 and customer in hit:
        served.add(customer)

# Before the outage the pool had 40 connections ("active=40 max=40"), in it 8: profile-b is the cause.
cause = next(
    line.split()[1]
    for line in (LOGS / "deploy.log").read_text().splitlines()
    if " payments: " in line and "db.pool.max=8" in line
)
json.dump(
    {
        "first_failure": failed[0],
        "last_failure": failed[-1],
        "failed_requests": len(failed),
        "lost_customers": sorted(hit - served),
        "cause": cause,
    },
    sys.stdout,
    indent=2,
)
print()
