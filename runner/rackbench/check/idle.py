"""Doing nothing scores 0, and passes none of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from rackbench.check.case import Case, Check
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.reference import IDLE, idle
from rackbench_results.outcomes import Outcome
from rackbench_tasks.test_results import TestStatus


def _judge(case: Case) -> list[Finding]:
    seen = case.attempts.get(IDLE)
    if seen is None:
        return [Finding(CheckName.IDLE, Level.ERROR, "the idle agent was not run to its end")]
    if seen.result.outcome is not Outcome.UNSOLVED or seen.result.reward != 0:
        text = f"doing nothing was not unsolved with reward 0: {seen.words()}"
        return [Finding(CheckName.IDLE, Level.ERROR, text, seen.evidence())]
    allowed = case.allowances.passes_idle
    passed = [
        name
        for name, status in seen.result.tests.items()
        if status == TestStatus.PASSED and not _matches(name, allowed)
    ]
    if not passed:
        return []
    text = (
        f"{len(passed)} tests pass though nothing was done; make them fail, or name them in "
        "[metadata.check] passes_idle"
    )
    return [Finding(CheckName.IDLE, Level.ERROR, text, tuple(passed[:20]))]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(
        name == pattern or name.endswith(f"::{pattern}") or fnmatchcase(name, pattern)
        for pattern in patterns
    )


CHECK = Check(CheckName.IDLE, idle, _judge)
