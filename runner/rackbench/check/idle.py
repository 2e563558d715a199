"""Doing nothing scores 0, and passes none of the tests."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from rackbench.check.case import Case, Check, Seen
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.reference import IDLE, idle
from rackbench_results.outcomes import Outcome

_TEST = r"(?P<test>\S+::.+?)"
# With -v: `test_it.py::test_one PASSED  [ 50%]`; with -rA: `PASSED test_it.py::test_one`.
_PYTEST_LINES = (
    re.compile(rf"^{_TEST} PASSED(?:\s+\[\s*\d+%\])?\s*$", re.MULTILINE),
    re.compile(rf"^PASSED {_TEST}\s*$", re.MULTILINE),
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def passed_tests(seen: Seen) -> list[str]:
    """Names of tests that passed, as a CTRF report or pytest's output tells them; sorted."""
    reports = seen.files_named("ctrf.json")
    if reports:
        return sorted({name for path in reports for name in _ctrf(path.read_bytes())})
    output = _COLOURS.sub("", seen.verifier_output())
    return sorted({m["test"] for line in _PYTEST_LINES for m in line.finditer(output)})


def _ctrf(content: bytes) -> list[str]:
    try:
        tests = json.loads(content)["results"]["tests"]
        return [str(test["name"]) for test in tests if test["status"] == "passed"]
    except (ValueError, KeyError, TypeError):
        return []


def _judge(case: Case) -> list[Finding]:
    seen = case.attempts.get(IDLE)
    if seen is None:
        return [Finding(CheckName.IDLE, Level.ERROR, "the idle agent was not run to its end")]
    if seen.result.outcome is not Outcome.UNSOLVED or seen.result.reward != 0:
        text = f"doing nothing was not unsolved with reward 0: {seen.words()}"
        return [Finding(CheckName.IDLE, Level.ERROR, text, seen.evidence())]
    allowed = case.allowances.passes_idle
    passed = [name for name in passed_tests(seen) if not _matches(name, allowed)]
    if not passed:
        return []
    text = (
        f"{len(passed)} tests pass though nothing was done; make them fail, or name them in "
        "[metadata.check] passes_idle"
    )
    return [Finding(CheckName.IDLE, Level.ERROR, text, tuple(passed[:20]))]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) or name.endswith(f"::{pattern}") for pattern in patterns)


CHECK = Check(CheckName.IDLE, idle, _judge)
