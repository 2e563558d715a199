"""Clean a customer list: usage: clean.py INPUT OUTPUT REJECTED"""

import csv
import re
import sys
from datetime import date
from pathlib import Path

COLUMNS = ["customer_id", "name", "email", "country", "signup_date", "balance"]
COUNTRIES = Path("/app/data/countries.csv")
DATES = [
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})", re.ASCII),
    re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})", re.ASCII),
    re.compile(r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})", re.ASCII),
]
AMOUNT = re.compile(r"-?[0-9]+(\.[0-9]{1,2})?")


class Rejected(Exception):
    """A record that the import must not see."""


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    source, output, rejected = map(Path, sys.argv[1:])
    codes = read_countries()
    best, bad = {}, []
    for number, raw in enumerate(read_records(source), start=1):
        customer = int(raw["customer_id"])
        try:
            record = {
                "customer_id": customer,
                "name": " ".join(raw["name"].split()),
                "email": email(raw["email"]),
                "country": country(raw["country"], codes),
                "signup_date": signup_date(raw["signup_date"]),
                "balance": balance(raw["balance"]),
            }
        except Rejected as reason:
            bad.append([number, customer, reason])
            continue
        seen = best.get(record["email"])
        if seen is None or record["signup_date"] >= seen["signup_date"]:
            best[record["email"]] = record
    good = sorted(best.values(), key=lambda record: record["customer_id"])
    write(output, COLUMNS, [[record[name] for name in COLUMNS] for record in good])
    write(rejected, ["record", "customer_id", "reason"], bad)
    return 0


def read_records(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = (row for row in csv.reader(file) if row)
        names = [name.strip().lower() for name in next(rows)]
        places = {name: names.index(name) for name in COLUMNS}
        for row in rows:
            yield {n: row[place] if place < len(row) else "" for n, place in places.items()}


def read_countries():
    with COUNTRIES.open(encoding="utf-8", newline="") as file:
        codes = {}
        for row in csv.DictReader(file):
            codes[row["name"].casefold()] = codes[row["code"].casefold()] = row["code"]
        return codes


def email(text):
    text = text.strip().lower()
    name, at, domain = text.partition("@")
    if not (name and at) or "@" in domain or "." not in domain[1:-1] or re.search(r"\s", text):
        raise Rejected("email")
    return text


def country(text, codes):
    try:
        return codes[text.strip().casefold()]
    except KeyError:
        raise Rejected("country") from None


def signup_date(text):
    for form in DATES:
        if match := form.fullmatch(text.strip()):
            try:
                return date(*(int(match[part]) for part in ("year", "month", "day"))).isoformat()
            except ValueError:
                break
    raise Rejected("date")


def balance(text):
    text = re.sub(r"[\s€]", "", text)
    if not text:
        return "0.00"
    marks = [mark for mark in text if mark in ".,"]
    decimal = marks[-1] if marks else None
    if len(set(marks)) == 1 and (len(marks) > 1 or re.search(r"[.,][0-9]{3}$", text)):
        decimal = None
    for mark in ".,":
        text = text.replace(mark, "." if mark == decimal else "")
    if not AMOUNT.fullmatch(text):
        raise Rejected("balance")
    whole, _, part = text.partition(".")
    sign = "-" if text.startswith("-") and text.strip("-0.") else ""
    return f"{sign}{int(whole.lstrip('-'))}.{part:0<2}"


def write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


sys.exit(main())
