"""The closed list of outcomes, and the decision that picks from it."""

from __future__ import annotations

import pytest

from rackbench.verdict import FaultError, Verdict, agent_end, of_fault, of_reward
from rackbench_harnesses.ports import Finish
from rackbench_results.outcomes import RULES, Outcome, Reason, is_counted, is_retried


def test_every_reason_has_its_row() -> None:
    assert set(RULES) == set(Reason)


def test_every_finish_of_a_harness_has_its_reason() -> None:
    assert {finish: agent_end(finish, "").reason for finish in Finish} == {
        Finish.SUBMITTED: Reason.WRONG,
        Finish.STEP_LIMIT: Reason.STEP_LIMIT,
        Finish.TOKEN_LIMIT: Reason.TOKEN_LIMIT,
        Finish.CONTEXT_LIMIT: Reason.CONTEXT_LIMIT,
        Finish.TRUNCATED: Reason.TRUNCATED,
        Finish.REFUSAL: Reason.REFUSAL,
        Finish.ERROR: Reason.AGENT_ERROR,
        Finish.ENDPOINT_ERROR: Reason.ENDPOINT,
    }


@pytest.mark.parametrize("reason", [r for r in Reason if RULES[r].outcome is Outcome.VOID])
def test_voids_do_not_count_and_earn_a_new_attempt(reason: Reason) -> None:
    verdict = of_fault(FaultError(reason, "why"))
    assert verdict == Verdict(Outcome.VOID, reason, "why")
    assert not is_counted(verdict.outcome, verdict.reason)
    assert is_retried(verdict.outcome, verdict.reason)


@pytest.mark.parametrize("reason", [r for r in Reason if RULES[r].outcome is Outcome.UNSOLVED])
def test_what_the_agent_did_counts_and_is_never_repeated(reason: Reason) -> None:
    assert is_counted(Outcome.UNSOLVED, reason)
    assert not is_retried(Outcome.UNSOLVED, reason)


@pytest.mark.parametrize("finish", [f for f in Finish if f is not Finish.ENDPOINT_ERROR])
def test_what_was_achieved_counts_however_the_agent_ended(finish: Finish) -> None:
    verdict = of_reward(agent_end(finish, "end"), 1.0, solved_at=1.0)
    assert (verdict.outcome, verdict.reason) == (Outcome.SOLVED, None)


@pytest.mark.parametrize(
    ("reward", "solved_at", "outcome"),
    [
        (0.5, 1.0, Outcome.UNSOLVED),
        (0.5, 0.5, Outcome.SOLVED),
        (0.49, 0.5, Outcome.UNSOLVED),
        (0.0, 1.0, Outcome.UNSOLVED),
        (1.0, 1.0, Outcome.SOLVED),
    ],
)
def test_the_threshold_decides(reward: float, solved_at: float, outcome: Outcome) -> None:
    end = agent_end(Finish.SUBMITTED, "")
    assert of_reward(end, reward, solved_at=solved_at).outcome is outcome


def test_solved_and_cancelled_need_no_reason() -> None:
    assert is_counted(Outcome.SOLVED, None)
    assert not is_counted(Outcome.CANCELLED, None)
    assert not is_retried(Outcome.CANCELLED, None)
