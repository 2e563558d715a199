"""Outcomes and the result that carries them: nothing that contradicts itself is written."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from rackbench_results import RULES, Outcome, Reason, Result, TrialKey, is_counted, is_retried

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def result(**fields):
    values = {
        "run_id": "run",
        "key": TrialKey(task_digest="t", arm_digest="a", index=0),
        "task_id": "task",
        "arm": "arm",
        "attempt": 1,
        "started_at": NOW,
        "finished_at": NOW,
    }
    return Result(**{**values, **fields})


def test_every_reason_has_exactly_one_rule():
    assert set(RULES) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("outcome", Outcome)
def test_a_result_takes_the_reasons_of_its_outcome_and_no_other(outcome, reason):
    if RULES[reason].outcome is outcome:
        assert result(outcome=outcome, reason=reason).reason is reason
    else:
        with pytest.raises(ValidationError, match=str(reason)):
            result(outcome=outcome, reason=reason)


@pytest.mark.parametrize("outcome", Outcome)
def test_only_solved_and_cancelled_go_without_a_reason(outcome):
    if outcome in (Outcome.SOLVED, Outcome.CANCELLED):
        assert result(outcome=outcome).reason is None
    else:
        with pytest.raises(ValidationError, match="does not belong"):
            result(outcome=outcome)


@pytest.mark.parametrize("reason", Reason)
def test_what_counts_is_not_tried_again(reason):
    outcome = RULES[reason].outcome
    assert not (is_counted(outcome, reason) and is_retried(outcome, reason))


def test_rules_are_fixed():
    with pytest.raises(TypeError):
        RULES[Reason.WRONG] = RULES[Reason.BUILD]  # type: ignore[index]


@pytest.mark.parametrize("reward", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_reward_is_between_zero_and_one(reward):
    with pytest.raises(ValidationError):
        result(outcome="solved", reward=reward)


def test_an_unknown_reward_stays_unknown():
    assert result(outcome="solved").reward is None


def test_unknown_fields_are_refused():
    with pytest.raises(ValidationError, match="Extra inputs"):
        result(outcome="solved", rewrad=1.0)
