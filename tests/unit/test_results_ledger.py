"""What a run's engines used, whose it was, and that nothing is lost between the two."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_results import EndpointCost, ListPrice, TokenWeights
from rackbench_results.accounting import make_ledger
from rackbench_results.attempt_calls import Attempt
from rackbench_results.attribution import (
    QUANTUM,
    CallSpan,
    apportion,
    by_occupancy,
    calibrate,
    in_flight,
)
from rackbench_results.ledger import METHODS, Ledger

LAUNCH = datetime(2026, 11, 30, 12, tzinfo=UTC)
ZERO = LAUNCH.timestamp()
LIST_PRICE = ListPrice(
    input_per_million=2.0,
    cached_per_million=0.2,
    output_per_million=10.0,
    date="2026-10-24",
    source="the maker's list",
)


def span(  # noqa: PLR0917
    attempt, begin, end, prompt=None, cached=None, completion=None, first=None
):
    at = None if first is None else ZERO + first
    return CallSpan(attempt, ZERO + begin, at, ZERO + end, prompt, cached, completion)


def attempt(name, *spans, arm="arm", counts=True, solved=False):
    return Attempt(
        id=name,
        trial=f"{name}/{arm}/0",
        task=name,
        arm=arm,
        counts=counts,
        solved=solved,
        spans=spans,
    )


def cost(*, seconds=3600.0, price=3.0, devices=8, since=0.0, **fields):
    values = {
        "device": "gpu",
        "devices": devices,
        "launched_at": LAUNCH + timedelta(seconds=since),
        "stopped_at": LAUNCH + timedelta(seconds=since + seconds),
        "price_per_device_hour": price,
        "currency": "USD" if price is not None else None,
        "price_date": "2026-11-01",
        "price_source": "invoice",
    }
    return EndpointCost(**{**values, **fields})


def test_an_instant_is_split_evenly_between_the_trials_in_flight() -> None:
    busy = in_flight([span("a", 0, 30), span("b", 10, 20), span("b", 15, 25), span("c", 40, 50)])
    # b's two calls at once are one trial in flight.
    assert busy.seconds == pytest.approx(40)
    assert busy.shares == pytest.approx({"a": 10 + 7.5 + 5, "b": 7.5, "c": 10})
    assert busy.concurrency == pytest.approx(60 / 40)


def test_occupancy_counts_what_waits_for_the_next_turn_only_if_it_was_found_again() -> None:
    found = by_occupancy(
        [
            span("a", 0, 10, prompt=1000, cached=0, completion=200),
            span("a", 110, 120, prompt=1300, cached=1200, completion=0),
            span("b", 0, 10, prompt=1000, cached=0, completion=200),
            span("b", 110, 120, prompt=1300, cached=0, completion=0),
        ]
    )
    assert found == {"a": 11_000 + 1200 * 100 + 13_000, "b": 11_000 + 13_000}


def test_a_known_split_of_hours_money_and_energy() -> None:
    ledger = make_ledger(
        "kimi",
        [
            cost(
                load_seconds=600,
                warmup_seconds=60,
                scored_seconds=1800,
                drain_seconds=40,
                energy_joules=7.2e6,
                list_price=LIST_PRICE,
            )
        ],
        [
            attempt("a", span("a", 1000, 2800, 1_000_000, 500_000, 10_000), solved=True),
            attempt("b", span("b", 1000, 1900, 100_000, 0, 1_000), arm="other"),
            attempt("v", span("v", 1900, 2800, 100_000, 0, 1_000), counts=False),
        ],
    )
    assert ledger.total is not None
    assert (ledger.total.device_hours, ledger.total.cost) == (8.0, Decimal(24))
    hours = {name: amount.device_hours for name, amount in ledger.phases.items()}
    assert hours == pytest.approx(
        {"load": 8 / 6, "warmup": 8 / 60, "scored": 4.0, "drain": 8 / 90, "idle": 8 * 1100 / 3600}
    )
    split = ledger.split("in_flight")
    assert split is not None
    assert split.attributed.device_hours == pytest.approx(3.0)
    assert (split.attributed.cost, split.voided.cost) == (Decimal(9), Decimal(3))
    assert split.unattributed.cost == Decimal(12)
    mine, other = ledger.arm("arm"), ledger.arm("other")
    assert mine is not None
    assert other is not None
    assert (mine.attributed.cost, mine.all_in.cost) == (Decimal(6), Decimal(16))
    assert mine.per_solved is not None
    assert mine.per_solved.cost == Decimal(16)
    assert (other.all_in.cost, other.per_solved) == (Decimal(8), None)
    assert mine.attributed.joules == pytest.approx(7.2e6 / 4)
    # 500,000 computed at 2, 500,000 cached at 0.2, 10,000 of output at 10, of a million each.
    assert ledger.list_price_cost("arm") == pytest.approx(1.2)
    assert ledger.concurrency == pytest.approx(2.0)


def test_stated_weights_of_tokens_are_used_and_told() -> None:
    weights = TokenWeights(prompt=1, cached=0, completion=4)
    ledger = make_ledger(
        "kimi",
        [cost(scored_seconds=900, token_weights=weights)],
        [
            attempt("a", span("a", 0, 900, 1_000, 400, 100)),
            attempt("b", span("b", 0, 900, 3_000, 0, 0), arm="other"),
        ],
    )
    mine, split = ledger.arm("arm", "tokens"), ledger.split("tokens")
    assert mine is not None
    assert split is not None
    assert mine.attributed.device_hours == pytest.approx(2.0 * 1_000 / 4_000)
    assert "1 : 0 : 4 a token (stated in the run file)" in split.rule


def test_what_is_not_known_is_said() -> None:
    silent = attempt("a", span("a", 0, 900), span("a", 900, 1000))
    ledger = make_ledger("kimi", [cost(price=None)], [silent])
    assert [split.method for split in ledger.methods] == ["in_flight"]
    assert ledger.total is not None
    assert ledger.total.cost is None
    assert any("2 of 2 calls have no token counts" in note for note in ledger.notes)

    elsewhere = make_ledger("api", [cost(device=None, devices=None, price=None)], [silent])
    assert (elsewhere.total, elsewhere.methods, elsewhere.arms) == (None, (), ())
    assert "devices are not known" in elsewhere.notes[0]


def test_methods_that_order_the_arms_differently_are_told() -> None:
    ledger = make_ledger(
        "kimi",
        [cost()],
        [
            attempt("slow", span("slow", 0, 900, 100, 0, 10), arm="slow"),
            attempt("wide", span("wide", 900, 1000, 900_000, 0, 10), arm="wide"),
        ],
    )
    (note,) = [note for note in ledger.notes if "order the arms differently" in note]
    assert "in_flight: wide < slow; tokens: slow < wide" in note


def test_prices_that_differ_between_two_starts_are_both_paid() -> None:
    ledger = make_ledger(
        "kimi",
        [cost(price=3.0), cost(price=5.0, since=7200)],
        [attempt("a", span("a", 1800, 3600), span("a", 7200, 9000))],
    )
    split = ledger.split("in_flight")
    assert split is not None
    assert ledger.total is not None
    assert (ledger.total.cost, split.attributed.cost) == (Decimal(64), Decimal(32))
    assert ledger.price_per_device_hour is None
    mixed = make_ledger("kimi", [cost(), cost(price=5.0, since=7200, currency="EUR")], [])
    assert mixed.total is not None
    assert (mixed.total.cost, mixed.currency) == (None, None)


def test_calibration_finds_the_weights_that_made_the_times() -> None:
    calls, at = [], 0.0
    for number in range(200):
        prompt, cached, completion = 2000 + 137 * (number % 17), 900 + 91 * (number % 11), 50
        completion += 13 * (number % 23)
        prefill = 1e-3 * (prompt - cached) + 1e-4 * cached
        decode = 5e-3 * completion
        calls.append(
            span(str(number), at, at + prefill + decode, prompt, cached, completion, at + prefill)
        )
        at += prefill + decode + 3.0
    found = calibrate(calls)
    assert found is not None
    weights, fit = found
    assert weights.completion == pytest.approx(5.0, rel=0.15)
    assert weights.cached == pytest.approx(0.1, abs=0.1)
    assert fit > 0.9
    assert calibrate(calls[:5]) is None


amounts = st.decimals(min_value=0, max_value=10**7, places=8)
weights_of_parts = st.dictionaries(st.text(max_size=5), st.floats(0, 1e9), max_size=20)


@given(amounts, weights_of_parts)
def test_parts_of_an_amount_are_the_amount(total: Decimal, weights: dict[str, float]) -> None:
    parts = apportion(total, weights)
    whole = sum(weights.values())
    if not whole:
        assert set(parts.values()) <= {Decimal(0)}
        return
    assert sum(parts.values()) == total
    for name, weight in weights.items():
        fair = float(total) * weight / whole
        assert float(parts[name]) == pytest.approx(fair, abs=2 * float(QUANTUM) + fair * 1e-9)


calls = st.tuples(
    st.sampled_from("abcd"),
    st.floats(-100, 20_000),
    st.floats(0.001, 5_000),
    st.one_of(st.none(), st.integers(0, 1_000_000)),
    st.integers(0, 1_000_000),
    st.integers(0, 100_000),
)
starts = st.tuples(st.floats(1, 9_000), st.floats(0, 12), st.integers(1, 64), st.floats(0, 5_000))


@settings(deadline=None)
@given(st.lists(calls, max_size=12), st.lists(starts, min_size=1, max_size=3))
def test_the_ledger_adds_up_to_the_cent(of_calls, of_starts) -> None:
    spans: dict[str, list[CallSpan]] = {name: [] for name in "abcd"}
    for name, begin, seconds, prompt, cached, completion in of_calls:
        counts = (prompt, cached, completion) if prompt is not None else (None, None, None)
        spans[name].append(span(name, begin, begin + seconds, *counts))
    attempts = [
        attempt(name, *of, arm="one" if name in "ab" else "two", counts=name != "d", solved=True)
        for name, of in spans.items()
    ]
    costs, since = [], 0.0
    for seconds, price, devices, scored in of_starts:
        costs.append(
            cost(
                seconds=seconds,
                price=price,
                devices=devices,
                since=since,
                scored_seconds=scored,
                energy_joules=seconds * 1000,
            )
        )
        since += seconds + 60
    ledger = make_ledger("kimi", costs, attempts)
    assert ledger.total is not None
    assert ledger.total.cost is not None
    expected = sum(d * p * s / 3600 for s, p, d, _ in of_starts)
    assert float(ledger.total.cost) == pytest.approx(expected, abs=0.005)
    assert sum(amount.cost for amount in ledger.phases.values()) == ledger.total.cost
    for split in ledger.methods:
        parts = (split.attributed, split.voided, split.unattributed)
        assert sum(part.cost for part in parts) == ledger.total.cost
        assert sum(part.device_hours for part in parts) == pytest.approx(ledger.total.device_hours)
        assert sum(part.joules for part in parts) == pytest.approx(ledger.total.joules)
        mine = [arm for arm in ledger.arms if arm.method == split.method]
        assert sum(arm.attributed.cost for arm in mine) == split.attributed.cost
        if split.attributed.device_hours:
            assert sum(arm.all_in.cost for arm in mine) == ledger.total.cost
        trials = [trial.by_method[split.method].cost for trial in ledger.trials]
        assert sum(trials) == split.attributed.cost


def test_a_ledger_survives_its_file() -> None:
    ledger = make_ledger("kimi", [cost(price=3.333)], [attempt("a", span("a", 0, 7, 10, 1, 1))])
    again = Ledger.model_validate_json(ledger.model_dump_json())
    assert {split.method for split in again.methods} == set(METHODS)
    assert again.model_dump_json() == ledger.model_dump_json()
