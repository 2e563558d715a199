"""Proves tasks by running them: the reference solves each, doing nothing solves none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackbench.launch import plan_values, start_run
from rackbench.progress import Observer
from rackbench_results.outcomes import Outcome
from rackbench_results.records import Result


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """What was seen of one task."""

    task: str
    oracle: tuple[str, ...]
    """How each run of the reference ended."""
    nop: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def proved(self) -> bool:
        """Nothing speaks against it."""
        return not self.problems


def check_tasks(
    path: Path, *, times: int, strict: bool, results: Path, observer: Observer
) -> list[CheckedTask]:
    """Run the reference and an idle agent on every task, and judge the tasks by it.

    Raises UsageError, PrerequisiteError.
    """
    values = {
        "name": "check",
        "tasks": [{"path": str(path.resolve())}],
        "arms": [{"harness": "oracle"}, {"harness": "nop"}],
        "attempts": times,
        "retries": 0,
        "void_threshold": 1.0,
        "results": str(results),
    }
    plan = plan_values(values, beside=Path.cwd(), origin="task check", strict=strict)
    finished = start_run(plan, values, beside=Path.cwd(), observers=[observer])
    found = finished.folder.final_results()
    return [_judge(task.name, task.id, found) for task in plan.tasks]


def _judge(name: str, task_id: str, results: Sequence[Result]) -> CheckedTask:
    mine = [result for result in results if result.task_id == task_id]
    oracle = [result for result in mine if result.arm == "oracle"]
    nop = [result for result in mine if result.arm == "nop"]
    problems = [
        f"the reference did not solve it: {_words(result)}"
        for result in oracle
        if result.outcome is not Outcome.SOLVED
    ]
    problems += [
        f"doing nothing was not unsolved with reward 0: {_words(result)}"
        for result in nop
        if result.outcome is not Outcome.UNSOLVED or result.reward != 0
    ]
    if not oracle or not nop:
        problems.append("the check did not finish")
    return CheckedTask(name, tuple(map(_words, oracle)), tuple(map(_words, nop)), tuple(problems))


def _words(result: Result) -> str:
    reward = "–" if result.reward is None else f"{result.reward:g}"
    reason = f" ({result.reason}: {result.detail})" if result.reason else ""
    return f"{result.outcome}, reward {reward}{reason}"
