"""Write the logs of one night: usage: make_logs.py FOLDER"""

import gzip
import random
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

START = datetime(2026, 5, 19, 19, 0, tzinfo=UTC)
MIDNIGHT = datetime(2026, 5, 20, tzinfo=UTC)
HOURS = 8
LOCAL = timezone(timedelta(hours=2))

WIDEN = datetime(2026, 5, 19, 20, 47, 5, tzinfo=UTC)
SHRINK = datetime(2026, 5, 19, 23, 31, 12, tzinfo=UTC)
GROW = datetime(2026, 5, 20, 0, 24, 47, tzinfo=UTC)
OUTAGE = (SHRINK + timedelta(minutes=6, seconds=9), GROW + timedelta(seconds=31))

DEPLOYS = [
    ("2026-05-19T19:12:40Z", "d-3381", "gateway", "image 8.4.1 -> 8.4.2", "noor"),
    ("2026-05-19T20:47:05Z", "d-3382", "payments", "config: db.pool.max 20 -> 40", "kim"),
    ("2026-05-19T22:03:55Z", "d-3383", "catalog", "config: db.pool.max 40 -> 12", "lee"),
    ("2026-05-19T23:31:12Z", "d-3384", "payments", "config: from profile-b (db.pool.max=8, log.level=info)", "kim"),
    ("2026-05-19T23:36:50Z", "d-3385", "payments", "flag: express-checkout on for 50 %", "ana"),
    ("2026-05-20T00:02:33Z", "d-3386", "payments", "flag: express-checkout off", "ana"),
    ("2026-05-20T00:24:47Z", "d-3387", "payments", "config: db.pool.max 8 -> 60", "kim"),
    ("2026-05-20T01:15:00Z", "d-3388", "gateway", "image 8.4.2 -> 8.4.3", "noor"),
]  # fmt: skip

ROUTES = [
    ("POST /v1/checkout", 0.30),
    ("POST /v1/refunds", 0.08),
    ("GET /v1/orders", 0.27),
    ("GET /v1/catalog", 0.35),
]


def main(folder: Path) -> None:
    draw = random.Random(3384).random  # its sequence is the same in every version of Python
    folder.mkdir(parents=True)
    gateway, payments = [], []
    moment, number = START, 0
    while moment < START + timedelta(hours=HOURS):
        moment += timedelta(milliseconds=1 + int(draw() * 3400))
        number += 1
        request(moment, number, draw, gateway, payments)
    gateway.sort()
    payments.sort(key=lambda entry: entry[0])

    late = MIDNIGHT.strftime("%Y-%m-%dT")
    old = [line for line in gateway if line < late]
    new = [line for line in gateway if line >= late]
    packed = gzip.compress("".join(old).encode(), mtime=0)
    (folder / "gateway.log.1.gz").write_bytes(packed)
    (folder / "gateway.log").write_text("".join(new))
    (folder / "payments.log").write_text("".join(line for _, line in payments))
    (folder / "deploy.log").write_text(
        "".join(f"{when} {which} {what}: {how} (by {who})\n" for when, which, what, how, who in DEPLOYS)
    )


def request(moment, number, draw, gateway, payments):
    """One request: what payments says about it while it lasts, and the gateway's line at its end."""
    route, kind = ROUTES[-1][0], draw()
    for name, share in ROUTES:
        if kind < share:
            route = name
            break
        kind -= share
    name = f"{(number * 2654435761) % 2**32:08x}"
    customer = f"C{1000 + int(draw() * 1900)}"
    money = route.startswith("POST")
    status, took = 200, 20 + int(draw() * 180)
    trouble, luck = draw(), draw()
    retries = 1 + int(draw() * 3)

    def say(after, level, text):
        when = moment + timedelta(milliseconds=after)
        stamp = when.astimezone(LOCAL)
        text = f"{stamp:%Y-%m-%d %H:%M:%S},{stamp.microsecond // 1000:03d} +0200 {level} {text}\n"
        payments.append((when, text))

    if money and OUTAGE[0] <= moment <= OUTAGE[1] and trouble < 0.55:
        recovers = luck < 0.25
        tries = retries if recovers else 3
        for attempt in range(1, tries + 1):
            say(
                attempt * 1000,
                "ERROR" if attempt == 3 else "WARN",
                f"[req={name}] connection pool exhausted (active=8 max=8), try {attempt} of 3",
            )
        took = tries * 1000 + took
        if recovers:
            say(took - 5, "INFO", f"[req={name}] done after {tries + 1} tries")
        else:
            status = 502 if luck < 0.8 else 503
    elif money and trouble > 0.96:
        say(took, "ERROR", f"[req={name}] bank answered 504: upstream timeout")
        status = 502
    elif money and trouble > 0.92:
        say(took, "WARN", f"[req={name}] card declined")
        status = 402
    elif money and trouble < 0.04 and not OUTAGE[0] <= moment <= OUTAGE[1]:
        # The pool is short now and then, for a moment: one more try is enough.
        size = 20 if moment < WIDEN else 40 if moment < SHRINK else 60
        full = f"connection pool exhausted (active={size} max={size}), try 1 of 3"
        say(900, "WARN", f"[req={name}] {full}")
        took += 900
    elif trouble < 0.002:
        status = 503
    elif money and luck < 0.5:
        say(took, "INFO", f"[req={name}] authorised")
    ended = moment + timedelta(milliseconds=took)
    stamp = f"{ended:%Y-%m-%dT%H:%M:%S}.{ended.microsecond // 1000:03d}Z"
    gateway.append(f'{stamp} gw1 "{route}" {status} req={name} customer={customer} {took}ms\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
