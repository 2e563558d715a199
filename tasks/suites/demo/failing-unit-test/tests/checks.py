"""Invoices follow docs/rounding.md, and the project's own tests are green and unchanged."""

import json
import subprocess
from pathlib import Path

import pytest

# lines as (description, quantity, unit price, VAT rate[, discount]); then net, VAT, gross
INVOICES = {
    "no lines": ([], ("0.00", "0.00", "0.00")),
    "one line": ([("a", 3, "4.20", "19")], ("12.60", "2.39", "14.99")),
    "half a cent up": ([("a", 1, "0.125", "0")], ("0.13", "0.00", "0.13")),
    "half a cent that floats put below": ([("a", 1, "1.005", "0")], ("1.01", "0.00", "1.01")),
    "half a cent that is even": ([("a", 1, "2.665", "0")], ("2.67", "0.00", "2.67")),
    "credit note": ([("a", -1, "0.125", "0")], ("-0.13", "0.00", "-0.13")),
    "credit note with VAT": ([("a", -1, "2.50", "5")], ("-2.50", "-0.13", "-2.63")),
    "VAT by rate, not by line": (
        [("a", 1, "0.03", "19"), ("b", 1, "0.03", "19"), ("c", 1, "0.03", "19")],
        ("0.09", "0.02", "0.11"),
    ),
    "VAT by rate, the other way": (
        [("a", 1, "0.02", "19"), ("b", 1, "0.02", "19"), ("c", 1, "0.02", "19")],
        ("0.06", "0.01", "0.07"),
    ),
    "one rate in three spellings": (
        [("a", 1, "0.03", "19"), ("b", 1, "0.03", "19.0"), ("c", 1, "0.03", "19.00")],
        ("0.09", "0.02", "0.11"),
    ),
    "lines are rounded before the sum": (
        [("a", 1, "0.125", "0"), ("b", 1, "0.125", "0")],
        ("0.26", "0.00", "0.26"),
    ),
    "the discount is not rounded on its own": (
        [("a", 1, "0.35", "0", "50"), ("b", 3, "0.33", "0", "12.5")],
        ("1.05", "0.00", "1.05"),
    ),
    "two rates, each rounded": (
        [("a", 1, "0.50", "7"), ("b", 1, "0.50", "19"), ("c", 1, "0.50", "7")],
        ("1.50", "0.17", "1.67"),
    ),
    "it cancels out": ([("a", 2, "7.35", "19"), ("b", -2, "7.35", "19")], ("0.00", "0.00", "0.00")),
    "next to nothing, negative": ([("a", -1, "0.004", "19")], ("0.00", "0.00", "0.00")),
    "all of it off": ([("a", -3, "9.99", "19", "100")], ("0.00", "0.00", "0.00")),
    "a large invoice": (
        [("a", 999_999, "1234567.89", "19")],
        ("1234566655432.11", "234567664532.10", "1469134319964.21"),
    ),
}


@pytest.fixture(scope="module")
def answers():
    probe = subprocess.run(
        ["/usr/bin/python3", "-I", "-B", "/tests/probe.py"],
        input=json.dumps([lines for lines, _ in INVOICES.values()]),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert probe.returncode == 0, probe.stderr[-2000:]
    return dict(zip(INVOICES, json.loads(probe.stdout), strict=True))


@pytest.mark.parametrize("name", INVOICES)
def test_invoice(answers, name):
    wanted = dict(zip(("net", "vat", "gross"), INVOICES[name][1], strict=True))
    assert answers[name] == wanted


def test_the_tests_are_unchanged():
    wanted = Path("/tests/original_test_invoice.txt").read_bytes()
    assert Path("/app/tests/test_invoice.py").read_bytes() == wanted


def test_the_projects_own_tests_pass():
    done = subprocess.run(
        ["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd="/app",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
