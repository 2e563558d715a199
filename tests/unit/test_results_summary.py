"""Every derived number of a run, and what is left unknown."""

from datetime import UTC, datetime, timedelta

import pytest

from rackbench_results import Call, EndpointCost, Result, TrialKey, Usage
from rackbench_results.accounting import make_ledger
from rackbench_results.attempt_calls import Attempt
from rackbench_results.attribution import CallSpan
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
        "ledgers": {},
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
            "all_in_hours",
            "cost",
            "currency",
            "cost_per_task",
            "cost_per_solved",
            "list_price_cost",
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


def calls_of(name, hours, *, arm="arm", since=0.0, counts=True, solved=False):
    """An attempt with one call of so many hours."""
    begin = LAUNCH.timestamp() + since * 3600
    spans = (CallSpan(name, begin, begin, begin + hours * 3600, 1000, 0, 10),)
    return Attempt(name, f"{name}/{arm}/0", name, arm, counts, solved, spans)


def test_an_arm_pays_for_its_calls_and_its_share_of_the_idle_engine():
    costs = [cost()]
    attempts = [
        calls_of("a", 3, arm="x", solved=True),
        calls_of("b", 1, arm="y", since=3),
        calls_of("c", 2, arm="y", since=4, counts=False),
    ]
    summary = summary_of(
        [result("a", "solved", arm="x"), result("b", "unsolved", arm="y", reason="wrong")],
        costs={"model": costs},
        ledgers={"model": make_ledger("model", costs, attempts)},
        endpoint_of_arm={"x": "model", "y": "model", "oracle": None},
        planned={"x": 1, "y": 1, "oracle": 0},
    )
    endpoint, (x, y, oracle) = summary.endpoints[0], summary.arms
    assert (endpoint.total_hours, endpoint.attributed_hours) == (20, 8)
    assert (endpoint.voided_hours, endpoint.unattributed_hours) == (4, 8)
    assert (x.device_hours, y.device_hours, oracle.device_hours) == (6, 2, None)
    assert (x.all_in_hours, y.all_in_hours) == (15, 5)
    assert (endpoint.cost, x.cost, y.cost) == (60, 45, 15)
    assert (x.cost_per_solved, y.cost_per_solved, y.cost_per_task) == (45, None, 15)
    assert (x.device, x.currency, oracle.currency) == ("gpu", "EUR", None)
    assert summary.attribution


def test_an_endpoint_that_we_do_not_run_costs_what_we_do_not_know():
    costs = [cost(device=None, devices=None, price_per_device_hour=None, currency=None)]
    used = result("a", "solved", usage=Usage(model_seconds=1.0))
    ledger = make_ledger("model", costs, [calls_of("a", 1)])
    summary = summary_of([used], costs={"model": costs}, ledgers={"model": ledger})
    endpoint = summary.endpoints[0]
    assert (endpoint.total_hours, endpoint.unattributed_hours, endpoint.cost) == (None, None, None)
    assert (summary.arms[0].device_hours, summary.arms[0].cost) == (None, None)
    assert summary.warnings == ()


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
    costs = [cost()]
    ledgers = {"model": make_ledger("model", costs, [])}
    (warning,) = summary_of(results, costs={"model": costs}, ledgers=ledgers).warnings
    assert warning.startswith("1 trials used model at a time whose hours were never written down")


def test_a_summary_survives_its_file():
    costs = [cost()]
    ledgers = {"model": make_ledger("model", costs, [calls_of("a", 1)])}
    summary = summary_of([result("a", "solved")], costs={"model": costs}, ledgers=ledgers)
    assert Summary.model_validate_json(summary.model_dump_json()) == summary
