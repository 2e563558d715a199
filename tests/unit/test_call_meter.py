"""Sums and medians over the calls of an attempt."""

from datetime import UTC, datetime

from rackbench.gateway.meter import is_answered, usage_of
from rackbench_results.records import Call, Usage


def call(**fields):
    values = {"number": 1, "received_at": datetime.now(UTC), "dialect": "openai-chat", "path": "/"}
    return Call(**{**values, "status": 200, "finish_reason": "stop", **fields})


def test_no_calls_leave_everything_unknown():
    assert usage_of([]) == Usage()


def test_tokens_are_summed_over_the_calls_that_report_them():
    usage = usage_of(
        [
            call(prompt_tokens=10, completion_tokens=5),
            call(prompt_tokens=30, completion_tokens=0, cached_tokens=0),
            call(),
        ]
    )
    assert (usage.prompt_tokens, usage.completion_tokens) == (40, 5)
    assert usage.cached_tokens == 0
    assert usage.reasoning_tokens is None
    assert usage.max_context_tokens == 30


def test_every_call_is_a_step_or_failed():
    usage = usage_of(
        [
            call(),
            call(status=500, error="x", finish_reason=None),
            call(error="inside"),
            call(client_gone=True, finish_reason=None),
            call(status=None, client_gone=True, finish_reason=None),
        ]
    )
    assert (usage.calls, usage.steps, usage.failed_calls) == (5, 1, 4)


def test_a_harness_may_leave_once_the_answer_is_finished():
    assert is_answered(call(client_gone=True))
    assert not is_answered(call(client_gone=True, finish_reason=None))


def test_times_are_medians_over_calls_and_over_all_gaps():
    usage = usage_of(
        [
            call(first_token_seconds=1.0, token_gaps_seconds=(0.1, 0.2)),
            call(first_token_seconds=3.0, token_gaps_seconds=(0.9,)),
            call(),
        ]
    )
    assert usage.ttft_seconds_median == 2.0
    assert usage.itl_seconds_median == 0.2


def test_model_time_runs_from_sending_to_the_last_byte():
    usage = usage_of([call(sent_seconds=0.5, finished_seconds=2.0), call(finished_seconds=9.0)])
    assert usage.model_seconds == 1.5
