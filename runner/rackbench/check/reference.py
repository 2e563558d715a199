"""The reference scores 1; and it does so each time, at another hour, in another order."""

from __future__ import annotations

from rackbench.check.case import Case, Check, Seen
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.variant import Variant, varied
from rackbench.check.watched import WatchedOracle
from rackbench_harnesses.nop import Nop
from rackbench_harnesses.oracle import Oracle
from rackbench_tasks import Task

PLAIN = "oracle"
IDLE = "nop"
_AGAIN = "oracle-again"
_IDLE_AGAIN = "nop-again"


def plain_reference(task: Task) -> list[Variant]:
    """The reference on the task as it is."""
    return [Variant(PLAIN, WatchedOracle(), task)]


def idle(task: Task) -> list[Variant]:
    """An agent that does nothing."""
    return [Variant(IDLE, Nop({}), task)]


def stable(times: int) -> Check:
    """The check that so many runs of the reference end alike, all but the first varied."""
    return Check(CheckName.STABLE, lambda task: _repeated(task, times), _judge_stable)


def _repeated(task: Task, times: int) -> list[Variant]:
    rounds = range(1, times)
    again = [varied(f"{_AGAIN}-{n}", Oracle({}), task, round_=n) for n in rounds]
    again += [varied(f"{_IDLE_AGAIN}-{n}", Nop({}), task, round_=n) for n in rounds[:1]]
    return [*plain_reference(task), *idle(task), *again]


def _judge_reference(case: Case) -> list[Finding]:
    if any(stage.solution is None for stage in case.task.stages):
        text = "there is no reference solution: nothing shows that the task can be solved"
        return [Finding(CheckName.REFERENCE, Level.ERROR, text)]
    seen = case.attempts.get(PLAIN)
    if seen is None:
        return [Finding(CheckName.REFERENCE, Level.ERROR, "the reference was not run to its end")]
    if seen.solved:
        return []
    text = f"the reference did not solve it: {seen.words()}"
    return [Finding(CheckName.REFERENCE, Level.ERROR, text, seen.evidence())]


def _judge_stable(case: Case) -> list[Finding]:
    found = []
    for first, again in ((PLAIN, _AGAIN), (IDLE, _IDLE_AGAIN)):
        plain = case.attempts.get(first)
        if plain is None or (first == PLAIN and not plain.solved):
            continue  # told by another check
        found += [_differs(plain, seen) for seen in case.named(again) if not _same(plain, seen)]
    return found


def _same(one: Seen, other: Seen) -> bool:
    return (one.solved, one.result.reward) == (other.solved, other.result.reward)


def _differs(plain: Seen, seen: Seen) -> Finding:
    who = "the reference" if seen.variant.name.startswith(PLAIN) else "doing nothing"
    text = (
        f"{who} does not end the same each time: {plain.words()} as the task is, {seen.words()} "
        f"with {', '.join(seen.variant.varied)}; mend what depends on it, or on chance"
    )
    return Finding(CheckName.STABLE, Level.ERROR, text, seen.evidence())


REFERENCE = Check(CheckName.REFERENCE, plain_reference, _judge_reference)
