"""From what happened in an attempt to its outcome: one small, pure decision."""

from __future__ import annotations

from dataclasses import dataclass

from rackbench_harnesses.ports import Finish
from rackbench_results.outcomes import RULES, Outcome, Reason

_REASONS = {
    Finish.SUBMITTED: Reason.WRONG,
    Finish.STEP_LIMIT: Reason.STEP_LIMIT,
    Finish.TOKEN_LIMIT: Reason.TOKEN_LIMIT,
    Finish.CONTEXT_LIMIT: Reason.CONTEXT_LIMIT,
    Finish.TRUNCATED: Reason.TRUNCATED,
    Finish.REFUSAL: Reason.REFUSAL,
    Finish.ERROR: Reason.AGENT_ERROR,
    Finish.ENDPOINT_ERROR: Reason.ENDPOINT,
}


class FaultError(Exception):
    """Ends an attempt with a reason of the closed list."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with its reason, and a line for a person."""

    outcome: Outcome
    reason: Reason | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How an agent phase ended."""

    reason: Reason
    """What the attempt is called if its reward says that it is not solved."""
    detail: str = ""


def agent_end(finish: Finish, detail: str) -> AgentEnd:
    """What a harness's own account means."""
    return AgentEnd(_REASONS[finish], detail)


def of_fault(fault: FaultError) -> Verdict:
    """What a fault makes of an attempt."""
    return Verdict(RULES[fault.reason].outcome, fault.reason, fault.detail)


def of_reward(end: AgentEnd, reward: float, *, solved_at: float) -> Verdict:
    """What a verified attempt is worth: what was achieved counts, however the agent ended."""
    if reward >= solved_at:
        return Verdict(Outcome.SOLVED, None, end.detail)
    detail = end.detail or f"the verifier wrote {reward:g}"
    return Verdict(Outcome.UNSOLVED, end.reason, detail)
