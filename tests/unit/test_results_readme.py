"""The README and the code say the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rackbench_results import RULES, Reason, Record, index_database, ledger, records, summary

README = Path(__file__).parents[2] / "results" / "README.md"
TEXT = README.read_text()
RECORDS = {
    name: kind
    for module in (records, ledger, summary)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Record) and kind is not Record
}


def section(title: str) -> str:
    """From a heading to the next of any depth."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"README has no section {title!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of all table rows that begin with code."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_every_field_of_a_record_stands_in_its_section(name: str) -> None:
    told = [row[0].strip("`") for row in rows(section(name))]
    assert told == list(RECORDS[name].model_fields)


def test_every_reason_stands_with_its_rule() -> None:
    told = {row[0].strip("`"): row for row in rows(section("Outcomes")) if len(row) == 6}
    assert list(told) == [str(reason) for reason in Reason]
    for reason, (_, outcome, meaning, *flags) in zip(Reason, told.values(), strict=True):
        rule = RULES[reason]
        expected = ["yes" if flag else "no" for flag in (rule.graded, rule.counted, rule.retried)]
        assert (outcome, flags) == (str(rule.outcome), expected)
        assert meaning


def test_every_table_of_the_index_stands_with_its_columns() -> None:
    told = {row[0].strip("`"): re.findall(r"`(\w+)`", row[2]) for row in rows(section("The index"))}
    tables = {
        name: [column.name for column in table.columns]
        for name, table in index_database.metadata.tables.items()
        if name != "rackbench_meta"
    }
    assert told == tables


def test_every_metric_that_a_table_shows_is_defined() -> None:
    told = section("Metrics")
    for metric in (
        "solve rate", "interval", "bracket", "mean reward", "steps", "wall", "queue", "TTFT",
        "ITL", "device-hours", "cost", "cost per solved", "void share",
    ):  # fmt: skip
        assert f"| {metric} |" in told


def test_the_package_is_cheap_to_import() -> None:
    slow = ("scipy", "numpy", "sqlalchemy", "rich")
    code = f"import sys, rackbench_results; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
