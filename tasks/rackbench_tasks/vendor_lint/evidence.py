"""What runs of the reference, of nothing and of a model left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackbench_tasks.vendor_lint.finding import LintFinding, error

EVIDENCE = "oracle-nop-evidence"
TRAJECTORIES = "trajectories"
_VERIFIER_FILES = ("ctrf.json", "reward.txt", "test-stdout.txt")
_AGENT_FILES = ("api-calls.jsonl", "recording.cast", "terminus_2.pane", "trajectory.json")
_RUN_FILES = ("config.json", "result.json", "rubric_score.txt")
RUNS = tuple(f"run-{number:02}" for number in range(1, 6))
_BASELINES = {
    **{f"oracle-{number}": (1.0, "passed") for number in (1, 2, 3)},
    **{f"nop-{number}": (0.0, "failed") for number in (1, 2)},
}


@dataclass(frozen=True, slots=True)
class Judged:
    """What a verifier wrote."""

    reward: float | None
    tests: tuple[tuple[str, str], ...] | None
    """Names and states; None where the report cannot be read."""


def evidence_rules(parent: Path, tests: Sequence[str]) -> Iterator[LintFinding]:
    """The reference passes every test three times, and doing nothing fails every test twice."""
    for name, (reward, status) in _BASELINES.items():
        folder = parent / EVIDENCE / name
        where = f"../{EVIDENCE}/{name}"
        yield from _missing(folder, where, _VERIFIER_FILES)
        judged = read_judged(folder)
        if judged.reward is not None and judged.reward != reward:
            yield error(
                "delivery/evidence-reward",
                f"{where}/reward.txt",
                f"is {judged.reward:g}; {name} must have {reward:g}; mend the task, and run anew",
            )
        for test, state in judged.tests or ():
            if state != status:
                yield error(
                    "delivery/evidence-test",
                    f"{where}/ctrf.json",
                    f"{test} is {state}; in {name} every single test must be {status}",
                )
        yield from _same_tests(judged, f"{where}/ctrf.json", tests)


def run_rules(parent: Path, tests: Sequence[str]) -> Iterator[LintFinding]:
    """Every run of the model is complete, and of these very tests."""
    for name in RUNS:
        folder, where = parent / TRAJECTORIES / name, f"../{TRAJECTORIES}/{name}"
        yield from _missing(folder, where, _RUN_FILES)
        yield from _missing(folder / "agent", f"{where}/agent", _AGENT_FILES)
        yield from _missing(folder / "verifier", f"{where}/verifier", _VERIFIER_FILES)
        judged = read_judged(folder / "verifier")
        yield from _same_tests(judged, f"{where}/verifier/ctrf.json", tests)


def read_judged(folder: Path) -> Judged:
    """The reward and the report of a verifier's folder."""
    try:
        reward = float((folder / "reward.txt").read_text())
    except (OSError, ValueError):
        reward = None
    try:
        tests = json.loads((folder / "ctrf.json").read_bytes())["results"]["tests"]
        states = tuple((_name(test), str(test["status"])) for test in tests)
    except (OSError, ValueError, KeyError, TypeError):
        return Judged(reward, None)
    return Judged(reward, states)


def _name(test: Any) -> str:
    return str(test["name"]).removeprefix("tests/")


def _missing(folder: Path, where: str, names: Sequence[str]) -> Iterator[LintFinding]:
    for name in names:
        if not (folder / name).is_file():
            yield error(
                "delivery/missing-file", f"{where}/{name}", "is missing; copy it from the run"
            )


def _same_tests(judged: Judged, where: str, tests: Sequence[str]) -> Iterator[LintFinding]:
    if judged.tests is None:
        return
    ran = {name.partition("[")[0] for name, _ in judged.tests}
    if ran != set(tests):
        other = sorted(ran ^ set(tests))
        yield error(
            "delivery/other-tests",
            where,
            f"is of other tests than tests/ has now ({', '.join(other[:3])}); run anew",
        )
