"""The list of what is good and bad in an agent's conduct."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackbench_tasks.vendor_lint.finding import LintFinding, error

FILE = "../rubric.txt"
_LINE = re.compile(r"Agent\b.*\S, ?([+-])([1235])")
_LEAST, _MOST = 10, 40


def rubric_rules(text: str) -> Iterator[LintFinding]:
    """The form of each line, and the sum of the points."""
    gained, has_negative = 0, False
    for number, line in enumerate(text.rstrip("\n").splitlines(), start=1):
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            yield error(
                "delivery/rubric-line",
                f"{FILE}:{number}",
                "every line begins with «Agent» and ends with a comma and +1, +2, +3, +5 or the "
                "same with a minus; nothing else may be in the file",
            )
            continue
        gained += int(match[2]) if match[1] == "+" else 0
        has_negative |= match[1] == "-"
    if not _LEAST <= gained <= _MOST:
        yield error(
            "delivery/rubric-sum",
            FILE,
            f"the positive points make {gained}; they must make {_LEAST} to {_MOST}",
        )
    if not has_negative:
        yield error(
            "delivery/rubric-negative", FILE, "has no negative line; at least one is needed"
        )
