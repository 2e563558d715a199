"""Forging fails: no agent that only cheats gets a reward."""

from __future__ import annotations

from rackbench.check.case import Case, Check, Seen
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.forgers import NEEDS_SHARED, Forger, Forgery
from rackbench.check.reference import IDLE, idle
from rackbench.check.variant import Variant
from rackbench_results.outcomes import Outcome
from rackbench_tasks import Task

_PREFIX = "forge-"


def _variants(task: Task) -> list[Variant]:
    forgers = [
        Variant(_PREFIX + forgery, Forger({"forgery": forgery}), task, {"forgery": str(forgery)})
        for forgery in Forgery
    ]
    return [*idle(task), *forgers]


def _judge(case: Case) -> list[Finding]:
    idle_reward = case.attempts[IDLE].result.reward if IDLE in case.attempts else None
    worked = [s for s in case.named(_PREFIX) if (s.result.reward or 0.0) > (idle_reward or 0.0)]
    separate = all(stage.verifier.separate for stage in case.task.stages)
    unpreventable = [] if separate else [s for s in worked if _forgery(s) in NEEDS_SHARED]
    found = [_forged(seen) for seen in worked if seen not in unpreventable]
    if unpreventable:
        names = ", ".join(_forgery(seen) for seen in unpreventable)
        text = (
            f"an agent that may change its whole container can forge the reward ({names}): tests "
            "that share it cannot defend themselves; use a separate verifier"
        )
        folders = tuple(str(seen.folder) for seen in unpreventable)
        found.append(Finding(CheckName.FORGERY, Level.WARNING, text, folders))
    found += [_voided(seen) for seen in case.named(_PREFIX) if _is_void(seen)]
    return found


def _is_void(seen: Seen) -> bool:
    return seen.result.outcome is Outcome.VOID


def _forgery(seen: Seen) -> Forgery:
    return Forgery(seen.variant.name.removeprefix(_PREFIX))


def _forged(seen: Seen) -> Finding:
    text = (
        f"a forged attempt got a reward, by {_forgery(seen)}: {seen.words()}; the tests must not "
        "believe, run or read what the agent can write"
    )
    return Finding(CheckName.FORGERY, Level.ERROR, text, seen.evidence())


def _voided(seen: Seen) -> Finding:
    text = (
        f"{_forgery(seen)} got no reward, and made the attempt void: {seen.words()}; an agent "
        "could leave the count that way"
    )
    return Finding(CheckName.FORGERY, Level.NOTE, text, (str(seen.folder),))


CHECK = Check(CheckName.FORGERY, _variants, _judge)
