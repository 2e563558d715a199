"""Every derived number of a run, and what is left unknown."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_results import Call, EndpointCost, Result, TrialKey, Usage
from rackbench_results.summary import RunFacts, Summary, summarise

LAUNCH = datetime(2026, 11, 30, 12, tzinfo=UTC)
BEGAN = LAUNCH + timedelta(minutes=30)


def result(task, outcome, *, index=0, arm="arm", seconds=60.0, **fields):
    values = {
        "run_id": "run",
        "key": TrialKey(task_digest=task, arm_digest=arm, index=index),
        "task_id": task,
        "arm": arm,
        "attempt": 1,
        "outcome": outcome,
        "started_at": BEGAN,
        "finished_at": BEGAN + timedelta(seconds=seconds),
    }
    return Result(**{**values, **fields})


def cost(*, hours=10.0, scored_hours=4.0, **fields):
    values = {
        "device": "gpu",
        "devices": 2,
        "launched_at": LAUNCH,
        "stopped_at": LAUNCH + timedelta(hours=hours),
        "scored_seconds": scored_hours * 3600,
        "price_per_device_hour": 3.0,
        "currency": "EUR",
    }
    return EndpointCost(**{**values, **fields})


def summary_of(results, **facts) -> Summary:
    arms = dict.fromkeys(r.arm for r in results) or {"arm": None}
    values = {
        "results": results,
        "calls": {},
        "costs": {},
        "endpoint_of_arm": dict.fromkeys(arms, "model"),
        "planned": {arm: sum(r.arm == arm for r in results) for arm in arms},
        "solved_at": 1.0,
        "void_threshold": 0.1,
        "seed": 0,
    }
    return summarise(RunFacts(**{**values, **facts}))


def test_every_kind_of_end_is_counted_apart():
    results = [
        result("a", "solved"),
        result("b", "unsolved", reason="wrong"),
        result("c", "void", reason="sandbox"),
        result("d", "void", reason="endpoint"),
        result("e", "void", reason="endpoint"),
        result("f", "unsupported", reason="gpu"),
        result("g", "cancelled"),
    ]
    arm = summary_of(results, planned={"arm": 9}).arms[0]
    assert (arm.planned, arm.missing) == (9, 2)
    assert (arm.solved, arm.counted, arm.void) == (1, 2, 3)
    assert (arm.unsupported, arm.cancelled) == (1, 1)
    assert arm.voids_by_reason == {"endpoint": 2, "sandbox": 1}
    assert list(arm.voids_by_reason) == ["endpoint", "sandbox"]
    assert arm.solve_rate == 0.5
    assert arm.bracket == (0.2, 0.5)
    assert arm.interval_method == "Wilson"


def test_nothing_finished_leaves_everything_unknown():
    arm = summary_of([], planned={"arm": 3}).arms[0]
    assert (arm.missing, arm.solved, arm.counted) == (3, 0, 0)
    unknown = arm.model_dump(
        include={
            "solve_rate",
            "interval",
            "interval_method",
            "bracket",
            "mean_reward",
            "steps_median",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
            "wall_seconds_median",
            "queue_seconds_median",
            "ttft_seconds_median",
            "itl_seconds_median",
            "device",
            "device_hours",
            "cost",
            "currency",
            "cost_per_solved",
        }
    )
    assert set(unknown.values()) == {None}


def test_a_void_alone_is_no_failure():
    summary = summary_of([result("a", "void", reason="build")])
    assert summary.arms[0].solve_rate is None
    assert summary.void_share == 1.0


def test_the_rate_lies_within_its_bracket_when_tasks_lose_different_numbers():
    results = [
        result("a", "solved"),
        *(result("a", "void", index=n, reason="disk") for n in (1, 2)),
        *(result("b", "unsolved", index=n, reason="wrong") for n in range(3)),
    ]
    arm = summary_of(results).arms[0]
    assert arm.solve_rate == 0.5
    assert arm.bracket == (pytest.approx(1 / 6), 0.5)


def test_rewards_that_are_known_and_believed():
    results = [
        result("a", "solved", reward=1.0),
        result("b", "unsolved", reason="wrong", reward=0.25),
        result("c", "unsolved", reason="tampered", reward=1.0),
        result("d", "void", reason="runner", reward=1.0),
        result("e", "unsolved", reason="agent_timeout"),
    ]
    assert summary_of(results).arms[0].mean_reward == 0.625


def test_medians_over_what_counts_and_totals_over_everything():
    used = Usage(steps=3, prompt_tokens=10, completion_tokens=1, model_seconds=5.0)
    results = [
        result("a", "solved", seconds=10, queue_seconds=1, usage=used),
        result("b", "unsolved", seconds=20, queue_seconds=3, reason="wrong", usage=used),
        result("c", "void", seconds=900, queue_seconds=99, reason="verifier", usage=used),
    ]
    arm = summary_of(results).arms[0]
    assert (arm.steps, arm.steps_median) == (9, 3)
    assert (arm.prompt_tokens, arm.cached_tokens, arm.completion_tokens) == (30, None, 3)
    assert (arm.wall_seconds_median, arm.queue_seconds_median) == (15, 2)
    assert arm.model_seconds == 15


def test_an_arm_without_a_model_has_no_steps_to_speak_of():
    arm = summary_of([result("a", "solved")], endpoint_of_arm={"arm": None}).arms[0]
    assert arm.steps_median is None
    assert arm.endpoint is None


def test_latencies_over_all_calls():
    def call(**fields):
        return Call(number=1, received_at=BEGAN, dialect="openai-chat", path="/", **fields)

    calls = [
        call(first_token_seconds=1.0, token_gaps_seconds=(0.1, 0.2)),
        call(first_token_seconds=3.0, token_gaps_seconds=(0.9,)),
        call(),
    ]
    arm = summary_of([result("a", "solved")], calls={"arm": iter(calls)}).arms[0]
    assert (arm.ttft_seconds_median, arm.itl_seconds_median) == (2.0, 0.2)


def test_hours_in_use_go_to_arms_by_model_time_and_the_rest_to_none():
    results = [
        result("a", "solved", arm="x", usage=Usage(model_seconds=300.0)),
        result("a", "unsolved", arm="y", reason="wrong", usage=Usage(model_seconds=100.0)),
        result("a", "solved", arm="oracle"),
    ]
    arms = {"x": "model", "y": "model", "oracle": None}
    summary = summary_of(results, costs={"model": [cost()]}, endpoint_of_arm=arms)
    endpoint, (x, y, oracle) = summary.endpoints[0], summary.arms
    assert (endpoint.total_hours, endpoint.attributed_hours) == (20, 8)
    assert endpoint.unattributed_hours == 12
    assert (x.device_hours, y.device_hours, oracle.device_hours) == (6, 2, None)
    assert (endpoint.cost, x.cost, y.cost) == (60, 18, 6)
    assert (x.cost_per_solved, y.cost_per_solved) == (18, None)
    assert (x.device, x.currency, oracle.currency) == ("gpu", "EUR", None)
    assert summary.attribution


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=6),
    st.lists(st.tuples(st.floats(0.01, 500), st.floats(0, 600)), min_size=1, max_size=4),
)
def test_attributed_and_unattributed_are_the_total(model_seconds, times):
    results = [
        result("a", "solved", arm=str(n), usage=Usage(model_seconds=seconds))
        for n, seconds in enumerate(model_seconds)
    ]
    costs = [cost(hours=hours, scored_hours=scored) for hours, scored in times]
    summary = summary_of(results, costs={"model": costs})
    endpoint = summary.endpoints[0]
    total = endpoint.total_hours
    assert total == pytest.approx(2 * sum(hours for hours, _ in times), rel=1e-6)
    assert endpoint.attributed_hours + endpoint.unattributed_hours == pytest.approx(total)
    assert endpoint.unattributed_hours >= 0
    by_arm = sum(arm.device_hours for arm in summary.arms)
    assert by_arm == pytest.approx(endpoint.attributed_hours)
    in_cents = sum(arm.cost for arm in summary.arms) + 3 * endpoint.unattributed_hours
    assert in_cents == pytest.approx(endpoint.cost, abs=0.005)


def test_an_endpoint_that_nobody_called_is_nobodys():
    endpoint = summary_of([result("a", "solved")], costs={"model": [cost()]}).endpoints[0]
    assert (endpoint.attributed_hours, endpoint.unattributed_hours) == (0, 20)


def test_an_endpoint_that_we_do_not_run_costs_what_we_do_not_know():
    elsewhere = cost(device=None, devices=None, price_per_device_hour=None, currency=None)
    used = result("a", "solved", usage=Usage(model_seconds=1.0))
    summary = summary_of([used], costs={"model": [elsewhere]})
    endpoint = summary.endpoints[0]
    assert (endpoint.total_hours, endpoint.unattributed_hours, endpoint.cost) == (None, None, None)
    assert (summary.arms[0].device_hours, summary.arms[0].cost) == (None, None)
    assert summary.warnings == ()


@pytest.mark.parametrize(
    "second",
    [{"currency": "USD"}, {"price_per_device_hour": None, "currency": None}],
)
def test_prices_that_do_not_add_up_are_not_added(second):
    used = result("a", "solved", usage=Usage(model_seconds=1.0))
    summary = summary_of([used], costs={"model": [cost(), cost(**second)]})
    assert (summary.endpoints[0].cost, summary.endpoints[0].currency) == (None, None)
    assert (summary.arms[0].cost, summary.arms[0].cost_per_solved) == (None, None)
    assert summary.arms[0].device_hours == 16


def test_too_many_voids_are_said_before_anything_else():
    results = [
        result("a", "solved"),
        result("b", "void", reason="sandbox"),
        result("c", "cancelled"),
    ]
    first, second = summary_of(results).warnings
    assert "50% of the trials are void" in first
    assert "1 trials are not finished" in second
    assert summary_of(results, void_threshold=0.5).warnings == (second,)


def test_hours_that_were_never_written_down_are_missed():
    late = {"started_at": LAUNCH + timedelta(days=1), "finished_at": LAUNCH + timedelta(days=2)}
    results = [
        result("a", "solved", usage=Usage(model_seconds=1.0)),
        result("b", "solved", usage=Usage(model_seconds=1.0), **late),
    ]
    (warning,) = summary_of(results, costs={"model": [cost()]}).warnings
    assert warning.startswith("1 trials used model at a time whose hours were never written down")


def test_a_summary_survives_its_file():
    summary = summary_of([result("a", "solved")], costs={"model": [cost()]})
    assert Summary.model_validate_json(summary.model_dump_json()) == summary
