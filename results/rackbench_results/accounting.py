"""Makes the ledger of a run out of its files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from rackbench_results.attempt_calls import Attempt, attempts_of_arm
from rackbench_results.attribution import (
    CallSpan,
    TokenWeights,
    apportion,
    by_occupancy,
    by_tokens,
    calibrate,
    clip,
    in_flight,
)
from rackbench_results.ledger import (
    METHODS,
    Activity,
    Amount,
    ArmCost,
    Ledger,
    Method,
    MethodTotal,
    TrialCost,
)
from rackbench_results.records import EndpointCost, ListPrice
from rackbench_results.store import RunFolder, read_record

_STATED = TokenWeights(2.0, 0.2, 10.0, "stated, 2 : 0.2 : 10, the ratio of a maker's list price")
_TRUSTED_R2 = 0.5
"""Weights that explain less of the busy time than half are not used."""
K = TypeVar("K", bound=str)
_REST = ""
"""Of an uptime: what no attempt is charged for."""


@dataclass(frozen=True, slots=True)
class _Bill:
    """What each attempt, and the rest, is charged by one method."""

    method: Method
    rule: str
    parts: Mapping[str, Amount]

    def sum(self, attempts: Iterable[Attempt]) -> Amount:
        return add(self.parts[a.id] for a in attempts if a.id in self.parts)


def ledgers_of(folder: RunFolder, endpoint_of_arm: Mapping[str, str | None]) -> list[Ledger]:
    """The ledger of every endpoint of a run that was up, from its files alone.

    Raises StoreError.
    """
    found = []
    for endpoint in sorted({name for name in endpoint_of_arm.values() if name}):
        paths = sorted(folder.endpoint_folder(endpoint).glob("cost-*.json"))
        costs = [cost for path in paths if (cost := read_record(path, EndpointCost))]
        arms = [arm for arm, name in endpoint_of_arm.items() if name == endpoint]
        if costs:
            attempts = [attempt for arm in arms for attempt in attempts_of_arm(folder, arm)]
            found.append(make_ledger(endpoint, costs, attempts))
    return found


def make_ledger(
    endpoint: str, costs: Sequence[EndpointCost], attempts: Sequence[Attempt]
) -> Ledger:
    """Add up what an endpoint used each time that it was up, and share it out.

    Prices in several currencies, or known for a part of the time, are not added up.
    """
    currency = _currency(costs)
    if currency is None:
        costs = [cost.model_copy(update={"price_per_device_hour": None}) for cost in costs]
    spans = [span for attempt in attempts for span in attempt.spans]
    prices = {(c.price_per_device_hour, c.price_date, c.price_source) for c in costs}
    per_hour, date, source = prices.pop() if len(prices) == 1 else (None, None, None)
    common = Ledger(
        endpoint=endpoint,
        device=costs[0].device,
        devices=None,
        total=None,
        currency=currency,
        price_per_device_hour=per_hour,
        price_date=date,
        price_source=source,
        concurrency=in_flight(spans).concurrency,
    )
    if any(cost.devices is None for cost in costs):
        note = "its devices are not known; `gpus` and `price` of the endpoint tell them"
        trials = _trials(attempts, [], costs)
        return common.model_copy(update={"trials": trials, "notes": (note,)})
    weights, weights_note = _weights(costs, spans)
    bills = [_bill(method, weights, costs, spans) for method in METHODS if _can(method, spans)]
    trials = _trials(attempts, bills, costs)
    total = add(_whole(cost) for cost in costs)
    arms = tuple(
        _arm(arm, bill, attempts, total)
        for arm in sorted({attempt.arm for attempt in attempts})
        for bill in bills
    )
    return common.model_copy(
        update={
            "devices": max(cost.devices or 0 for cost in costs),
            "total": total,
            "phases": _phases(costs),
            "methods": tuple(_method_total(bill, attempts) for bill in bills),
            "arms": arms,
            "trials": trials,
            "notes": (*weights_note, *_gaps(spans), *_disagreement(arms)),
        }
    )


def add(amounts: Iterable[Amount]) -> Amount:
    """Sum of amounts; a part that is unknown makes the sum of that kind unknown."""
    every = list(amounts)
    costs = [amount.cost for amount in every]
    joules = [amount.joules for amount in every]
    return Amount(
        device_hours=math.fsum(amount.device_hours for amount in every),
        cost=None if None in costs else sum((c for c in costs if c is not None), Decimal(0)),
        joules=None if None in joules else math.fsum(j for j in joules if j is not None),
    )


def _whole(cost: EndpointCost) -> Amount:
    hours = cost.device_hours or 0.0
    money = None
    if cost.price_per_device_hour is not None:
        money = Decimal(str(cost.price_per_device_hour)) * Decimal(str(round(hours, 9)))
    return Amount(device_hours=hours, cost=money, joules=cost.energy_joules)


def _split(whole: Amount, weights: Mapping[K, float]) -> dict[K, Amount]:
    """Parts of an amount that add up to it: money exactly."""
    everything = math.fsum(weights.values())
    money = apportion(whole.cost, weights) if whole.cost is not None else {}
    return {
        name: Amount(
            device_hours=whole.device_hours * weight / everything if everything else 0.0,
            cost=money.get(name),
            joules=None
            if whole.joules is None
            else (whole.joules * weight / everything if everything else 0.0),
        )
        for name, weight in weights.items()
    }


def _phases(costs: Sequence[EndpointCost]) -> dict[Activity, Amount]:
    parts: dict[Activity, list[Amount]] = {}
    for cost in costs:
        seconds: dict[Activity, float] = {
            "load": cost.load_seconds,
            "warmup": cost.warmup_seconds,
            "scored": cost.scored_seconds,
            "drain": cost.drain_seconds,
        }
        wall = (cost.stopped_at - cost.launched_at).total_seconds()
        seconds["idle"] = max(0.0, wall - math.fsum(seconds.values()))
        for activity, amount in _split(_whole(cost), seconds).items():
            parts.setdefault(activity, []).append(amount)
    return {activity: add(amounts) for activity, amounts in parts.items()}


def _bill(
    method: Method, weights: TokenWeights, costs: Sequence[EndpointCost], spans: Sequence[CallSpan]
) -> _Bill:
    """Each time that it was up apart: price and number of devices may differ."""
    rules: dict[Method, tuple[str, Callable[[Sequence[CallSpan]], Mapping[str, float]]]] = {
        "in_flight": (
            "each instant split evenly between the trials with a call in flight",
            lambda calls: in_flight(calls).shares,
        ),
        "tokens": (
            (
                f"computed prompt : cached prompt : completion = {weights.prompt:.3g} : "
                f"{weights.cached:.3g} : {weights.completion:.3g} a token ({weights.origin})"
            ),
            lambda calls: by_tokens(calls, weights),
        ),
        "kv_occupancy": (
            "tokens held in the KV cache times seconds, between calls what was found cached again",
            by_occupancy,
        ),
    }
    rule, weigh = rules[method]
    parts: dict[str, list[Amount]] = {_REST: []}
    for cost in costs:
        begin, end = cost.launched_at.timestamp(), cost.stopped_at.timestamp()
        within = clip(spans, begin, end)
        busy, weight = in_flight(within).seconds, weigh(within)
        everything = math.fsum(weight.values())
        seconds = {name: busy * w / everything for name, w in weight.items() if everything}
        seconds[_REST] = max(0.0, end - begin - math.fsum(seconds.values()))
        for name, amount in _split(_whole(cost), seconds).items():
            parts.setdefault(name, []).append(amount)
    return _Bill(method, rule, {name: add(amounts) for name, amounts in parts.items()})


def _can(method: Method, spans: Sequence[CallSpan]) -> bool:
    """Tokens must be known of every call that was answered: what is left out would be free."""
    if method == "in_flight":
        return True
    return any(span.prompt_tokens is not None for span in spans)


def _method_total(bill: _Bill, attempts: Sequence[Attempt]) -> MethodTotal:
    return MethodTotal(
        method=bill.method,
        rule=bill.rule,
        attributed=bill.sum(attempt for attempt in attempts if attempt.counts),
        voided=bill.sum(attempt for attempt in attempts if not attempt.counts),
        unattributed=bill.parts[_REST],
    )


def _arm(arm: str, bill: _Bill, attempts: Sequence[Attempt], total: Amount) -> ArmCost:
    counted = [attempt for attempt in attempts if attempt.counts]
    mine = [attempt for attempt in counted if attempt.arm == arm]
    arms = sorted({attempt.arm for attempt in counted})
    by_arm = {name: bill.sum(a for a in counted if a.arm == name) for name in arms}
    everything = _split(total, {name: amount.device_hours for name, amount in by_arm.items()})
    attributed = bill.sum(mine)
    all_in = everything.get(arm, _split(total, {arm: 0.0})[arm])
    solved = sum(attempt.solved for attempt in mine)
    return ArmCost(
        arm=arm,
        method=bill.method,
        trials=len(mine),
        solved=solved,
        attributed=attributed,
        all_in=all_in,
        per_trial=_per(all_in, len(mine)),
        per_task=_per(all_in, len({attempt.task for attempt in mine})),
        per_solved=_per(all_in, solved),
    )


def _per(amount: Amount, count: int) -> Amount | None:
    if not count:
        return None
    return Amount(
        device_hours=amount.device_hours / count,
        cost=None if amount.cost is None else amount.cost / count,
        joules=None if amount.joules is None else amount.joules / count,
    )


def _trials(
    attempts: Sequence[Attempt], bills: Sequence[_Bill], costs: Sequence[EndpointCost]
) -> tuple[TrialCost, ...]:
    price = next((cost.list_price for cost in reversed(costs) if cost.list_price), None)
    return tuple(
        TrialCost(
            trial=attempt.trial,
            task=attempt.task,
            arm=attempt.arm,
            by_method={bill.method: bill.sum([attempt]) for bill in bills},
            list_price_cost=_at_list_price(attempt.spans, price) if price else None,
        )
        for attempt in attempts
        if attempt.counts
    )


def _at_list_price(spans: Sequence[CallSpan], price: ListPrice) -> Decimal | None:
    """None where a call's tokens are not known."""
    total = Decimal(0)
    for span in spans:
        if span.prompt_tokens is None or span.completion_tokens is None:
            return None
        cached = min(span.cached_tokens or 0, span.prompt_tokens)
        total += (
            Decimal(str(price.input_per_million)) * (span.prompt_tokens - cached)
            + Decimal(str(price.cached_per_million)) * cached
            + Decimal(str(price.output_per_million)) * span.completion_tokens
        ) / 1_000_000
    return total


def _weights(
    costs: Sequence[EndpointCost], spans: Sequence[CallSpan]
) -> tuple[TokenWeights, list[str]]:
    """As the run file states, else as this run shows, else by a list price; and how sure it is."""
    stated = next((cost.token_weights for cost in reversed(costs) if cost.token_weights), None)
    if stated:
        return TokenWeights(
            stated.prompt, stated.cached, stated.completion, "stated in the run file"
        ), []
    if (found := calibrate(spans)) and found[1] >= _TRUSTED_R2:
        return found[0], [f"token weights explain {found[1]:.0%} of the busy time (R²)"]
    price = next((cost.list_price for cost in reversed(costs) if cost.list_price), None)
    note = "token weights are stated, not measured: this run is too short or uniform to calibrate"
    if price:
        return TokenWeights(
            price.input_per_million,
            price.cached_per_million,
            price.output_per_million,
            f"the ratio of the list price, {price.source}",
        ), [note]
    return _STATED, [note]


def _gaps(spans: Sequence[CallSpan]) -> list[str]:
    """What the methods by tokens do not see."""
    notes = []
    if without := sum(span.prompt_tokens is None for span in spans):
        notes.append(
            f"{without} of {len(spans)} calls have no token counts (failed, cut off, or not told): "
            "the methods by tokens charge nothing for them"
        )
    if unknown := sum(s.prompt_tokens is not None and s.cached_tokens is None for s in spans):
        notes.append(
            f"{unknown} of {len(spans)} calls do not tell cached tokens: all their prompt counts "
            "as computed"
        )
    return notes


def _disagreement(arms: Sequence[ArmCost]) -> list[str]:
    """Whether the methods put the arms in different orders."""
    orders = {
        method: [
            arm.arm
            for arm in sorted(
                (arm for arm in arms if arm.method == method and arm.per_trial),
                key=lambda arm: arm.per_trial.device_hours if arm.per_trial else 0.0,
            )
        ]
        for method in METHODS
    }
    known = {method: order for method, order in orders.items() if order}
    if len({tuple(order) for order in known.values()}) <= 1:
        return []
    said = "; ".join(f"{method}: {' < '.join(order)}" for method, order in known.items())
    return [f"the methods order the arms differently by cost per trial ({said})"]


def _currency(costs: Sequence[EndpointCost]) -> str | None:
    """None where there is none, or several, which cannot be added."""
    currencies = {cost.currency for cost in costs}
    return currencies.pop() if len(currencies) == 1 else None
