"""The program cleans our list and others; the results for our list are there."""

import csv
import hashlib
import io
import subprocess
from pathlib import Path

import pytest

TESTS = Path("/tests")
PROGRAM = Path("/app/clean.py")
HEADER = ["customer_id", "name", "email", "country", "signup_date", "balance"]
RAW_SHA256 = "48e233be60957c2042d0451c7fa3965bb43680bc18493c24b15508355e95e0b9"


def clean(folder: Path, data: bytes):
    """Run the program; the bytes of its two files."""
    source, output, rejected = (folder / name for name in ("in.csv", "out.csv", "rejected.csv"))
    source.write_bytes(data)
    done = subprocess.run(
        ["/usr/bin/python3", "-B", PROGRAM, source, output, rejected],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=15,
        check=False,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return output.read_bytes(), rejected.read_bytes()


def rows(data: bytes):
    return list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))


def packed(table) -> bytes:
    """A table as CSV in the form that was asked for."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(table)
    return buffer.getvalue().encode()


def one(folder, **fields):
    """Clean a list of one record that is good but for the given fields."""
    record = {
        "customer_id": "1",
        "name": "Ann",
        "email": "ann@mail.example",
        "country": "DE",
        "signup_date": "2024-05-06",
        "balance": "1.50",
        **fields,
    }
    good, bad = clean(folder, packed([list(record), list(record.values())]))
    assert rows(good)[0] == HEADER
    assert rows(bad)[0] == ["record", "customer_id", "reason"]
    return [dict(zip(HEADER, row, strict=True)) for row in rows(good)[1:]], rows(bad)[1:]


@pytest.mark.parametrize("kind", ["customers", "rejected"])
def test_the_shipped_list(kind):
    wanted = (TESTS / "shipped" / f"{kind}.csv").read_bytes()
    assert Path(f"/app/out/{kind}.csv").read_bytes() == wanted


def test_the_shipped_list_again(tmp_path):
    raw = Path("/app/data/customers_raw.csv").read_bytes()
    assert hashlib.sha256(raw).hexdigest() == RAW_SHA256, "the input was changed"
    assert Path("/app/data/countries.csv").read_bytes() == (TESTS / "countries.csv").read_bytes()
    assert clean(tmp_path, raw) == tuple(
        (TESTS / "shipped" / f"{kind}.csv").read_bytes() for kind in ("customers", "rejected")
    )


# Several values of one field in one list: good ones with what they become, bad ones with None.
VALUES = {
    "name": {
        "Ann": "Ann",
        "  Ann \t Lee\r\n": "Ann Lee",
        "Ann\nLee": "Ann Lee",
        "Lee, Ann": "Lee, Ann",
        'Ann "A" Lee': 'Ann "A" Lee',
        "": "",
    },
    "email": {
        " Ann@Mail.EXAMPLE ": "ann@mail.example",
        "a@b.c": "a@b.c",
        "": None,
        "ann": None,
        "@mail.example": None,
        "ann@": None,
        "ann@mail": None,
        "ann@.mail": None,
        "ann@mail.": None,
        "ann@lee@mail.example": None,
        "ann lee@mail.example": None,
        "ann@mail.exam ple": None,
    },
    "country": {
        "de": "DE",
        " gb ": "GB",
        "österreich": "AT",
        "ÖSTERREICH": "AT",
        "The netherlands": "NL",
        "ESPAÑA": "ES",
        "": None,
        "Atlantis": None,
        "XX": None,
        "Netherland": None,
    },
    "signup_date": {
        "2024-02-29": "2024-02-29",
        " 2024-12-01 ": "2024-12-01",
        "29.02.2024": "2024-02-29",
        "1.2.2024": "2024-02-01",
        "02/29/2024": "2024-02-29",
        "1/2/2024": "2024-01-02",
        "12/31/1999": "1999-12-31",
        "2023-02-29": None,
        "31.04.2024": None,
        "13/01/2024": None,
        "00.01.2024": None,
        "2024-1-02": None,
        "2024/01/02": None,
        "1.2.24": None,
        "2024-01-02T00:00": None,
        "": None,
    },
    "balance": {
        "": "0.00",
        "  ": "0.00",
        "€": "0.00",
        "0": "0.00",
        "-0": "0.00",
        "-0,00": "0.00",
        "7": "7.00",
        "-7.5": "-7.50",
        "0.05": "0.05",
        "-0.05": "-0.05",
        "1.234": "1234.00",
        "1,234": "1234.00",
        "-1,234": "-1234.00",
        "12,34": "12.34",
        "1.234,5": "1234.50",
        "1,234.56": "1234.56",
        "1.234.567": "1234567.00",
        "1,234,567": "1234567.00",
        "1.234.567,89": "1234567.89",
        "€ 1 234,50": "1234.50",
        "1.234 €": "1234.00",
        "- 12 €": "-12.00",
        "123456789012345678.91": "123456789012345678.91",
        "12.": None,
        ".5": None,
        "1,2345": None,
        "12.3456": None,
        "1.234,567": None,
        "1,2.3,4.5": None,
        "--5": None,
        "5-": None,
        "+5": None,
        "1e3": None,
        "n/a": None,
        "$5": None,
        "-": None,
    },
}
REASONS = {"email": "email", "country": "country", "signup_date": "date", "balance": "balance"}


@pytest.mark.parametrize("field", VALUES)
def test_values(tmp_path, field):
    values = VALUES[field]
    table, good, bad = [HEADER], [], []
    for number, (text, wanted) in enumerate(values.items(), start=1):
        row = {
            "customer_id": str(100 + number),
            "name": "Ann",
            "email": f"ann{number}@mail.example",
            "country": "DE",
            "signup_date": "2024-05-06",
            "balance": "1.5",
            field: text,
        }
        table.append(list(row.values()))
        if wanted is None:
            bad.append([str(number), row["customer_id"], REASONS[field]])
        else:
            good.append([*({**row, "balance": "1.50", field: wanted}).values()])
    found, rejected = clean(tmp_path, packed(table))
    assert dict(zip(values, by_id(found, table), strict=True)) == dict(
        zip(values, by_id(packed([HEADER, *good]), table), strict=True)
    )
    assert found == packed([HEADER, *good])
    assert rejected == packed([["record", "customer_id", "reason"], *bad])


def by_id(data, table):
    """The rows of a result in the order of the input, None where a record is not in it."""
    found = {row[0]: row for row in rows(data)[1:]}
    return [found.get(row[0]) for row in table[1:]]


def test_reasons_have_an_order(tmp_path):
    bad = {"email": "x", "country": "x", "signup_date": "x", "balance": "x"}
    for field, reason in REASONS.items():
        assert one(tmp_path, **bad) == ([], [["1", "1", reason]])
        del bad[field]


def test_duplicates_and_order(tmp_path):
    table = [
        HEADER,
        ["0030", "old", "a@mail.example", "DE", "2024-01-01", "1"],
        ["9", "new", " A@mail.example", "DE", "02.01.2024", "2"],
        ["200", "other", "b@mail.example", "DE", "2024-01-01", "3"],
        ["8", "older still", "a@MAIL.example", "DE", "2023-12-31", "4"],
        ["7", "later, but bad", "a@mail.example", "Nowhere", "2025-01-01", "5"],
        ["100", "the same day, later", "B@mail.example", "DE", "1/1/2024", "6"],
        [" 00010 ", "third", "c@mail.example", "DE", "2020-01-01", "7"],
    ]
    found, rejected = clean(tmp_path, packed(table))
    assert rows(found)[1:] == [
        ["9", "new", "a@mail.example", "DE", "2024-01-02", "2.00"],
        ["10", "third", "c@mail.example", "DE", "2020-01-01", "7.00"],
        ["100", "the same day, later", "b@mail.example", "DE", "2024-01-01", "6.00"],
    ]
    assert rows(rejected)[1:] == [["5", "7", "country"]]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_forms_of_the_input(tmp_path, mark, end):
    lines = [
        'Note, BALANCE ,"E-Mail",Country,email,SIGNUP_DATE, Customer_Id,name',
        '"a, b",2,x,DE,a@mail.example,2024-01-01,2,"Ann\nLee"',
        "",
        ",,,,nobody,,3",
        '"""q""",3,,fr,b@mail.example,2024-01-01,1,"Bob ""B"" Ray, jun."',
        "",
    ]
    found, rejected = clean(tmp_path, mark + end.join(lines).encode())
    assert found == packed(
        [
            HEADER,
            ["1", 'Bob "B" Ray, jun.', "b@mail.example", "FR", "2024-01-01", "3.00"],
            ["2", "Ann Lee", "a@mail.example", "DE", "2024-01-01", "2.00"],
        ]
    )
    assert rejected == packed([["record", "customer_id", "reason"], ["2", "3", "email"]])


def test_short_records(tmp_path):
    table = [HEADER, ["5", "Ann", "a@mail.example", "DE", "2024-01-01"], ["6", "Bob"]]
    found, rejected = clean(tmp_path, packed(table))
    assert rows(found)[1:] == [["5", "Ann", "a@mail.example", "DE", "2024-01-01", "0.00"]]
    assert rows(rejected)[1:] == [["2", "6", "email"]]


def test_an_empty_list(tmp_path):
    found, rejected = clean(tmp_path, packed([HEADER]))
    assert found == packed([HEADER])
    assert rejected == packed([["record", "customer_id", "reason"]])
