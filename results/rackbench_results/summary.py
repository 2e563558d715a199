"""Every derived number of a run, from its records alone."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rackbench_results import stats
from rackbench_results.ledger import Amount, Ledger
from rackbench_results.outcomes import RULES, Outcome, is_counted
from rackbench_results.records import Call, EndpointCost, Record, Result


class ArmSummary(Record):
    """One arm's numbers over its final attempts, one a trial; None is unknown, never zero."""

    arm: str
    endpoint: str | None
    planned: int
    """Trials of the plan."""
    solved: int
    counted: int
    """Solved and unsolved: the denominator of the solve rate."""
    void: int
    unsupported: int
    cancelled: int
    missing: int
    """Trials that have no result yet."""
    voids_by_reason: dict[str, int]
    """Most frequent first."""
    solve_rate: float | None
    """Mean over tasks of the solved share of counted trials."""
    interval: tuple[float, float] | None
    """95 % interval of the solve rate."""
    interval_method: str | None
    """Wilson (one attempt a task), task bootstrap (several), or Wilson, tasks (all alike)."""
    bracket: tuple[float, float] | None
    """The solve rate with voids as unsolved … with voids left out."""
    mean_reward: float | None
    """Over counted trials whose reward is known and believed."""
    steps: int
    """Answered model calls of all trials."""
    steps_median: float | None
    """Of counted trials; None for an arm without a model."""
    prompt_tokens: int | None
    """Of all trials, cached ones included."""
    cached_tokens: int | None
    completion_tokens: int | None
    wall_seconds_median: float | None
    """Of counted trials, from first phase to result, queueing left out."""
    queue_seconds_median: float | None
    """Of counted trials: waiting for a slot."""
    model_seconds: float
    """Of all trials: sum over model calls from sending to the last byte."""
    ttft_seconds_median: float | None
    """Over streamed calls: from receiving a request to its first token."""
    itl_seconds_median: float | None
    """Over all calls: between successive pieces of a stream."""
    device: Literal["gpu", "cpu"] | None
    """What device-hours are hours of."""
    device_hours: float | None
    """While its calls were in flight, each instant split evenly between the trials that had one."""
    all_in_hours: float | None
    """Its share of all device-hours, load and idling too, in proportion to `device_hours`."""
    cost: float | None
    """All-in hours times price."""
    currency: str | None
    cost_per_task: float | None
    """All-in cost over the tasks with a counted trial."""
    cost_per_solved: float | None
    """All-in cost; None where nothing was solved or no price was given."""
    list_price_cost: float | None
    """What an API would have asked for the same tokens; None where no list price is known."""


class EndpointSummary(Record):
    """What an endpoint used, and whose it was: attributed + unattributed = total."""

    endpoint: str
    device: Literal["gpu", "cpu"] | None
    total_hours: float | None
    """Devices times wall time from launch to stop, over all times that it was up."""
    attributed_hours: float | None
    """While a call of a counted trial was in flight: the sum of its arms' device-hours."""
    voided_hours: float | None
    """While calls of attempts were in flight that count for nothing: void, cancelled, cut off."""
    unattributed_hours: float | None
    """The rest: load, warm-up, idle, drain."""
    cost: float | None
    """Of the total; None where a price is missing, or prices are in several currencies."""
    currency: str | None
    restarts: int


class Summary(Record):
    """`summary.json`: derived, can be made again from the rest of the run folder."""

    schema_version: Literal[1] = 1
    arms: tuple[ArmSummary, ...]
    endpoints: tuple[EndpointSummary, ...]
    void_share: float
    """Of all trials that ended as solved, unsolved or void."""
    solved_at: float
    """Reward from which a trial counts as solved."""
    warnings: tuple[str, ...]
    """What must be read before any number."""
    attribution: str = "each instant split evenly between the trials with a call in flight"
    """The rule by which an endpoint's hours became its arms'."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a summary is made from."""

    results: Sequence[Result]
    """One a trial."""
    calls: Mapping[str, Iterable[Call]]
    """By arm, of the same attempts; each is gone through once."""
    costs: Mapping[str, Sequence[EndpointCost]]
    """By endpoint; one for each time that it was up."""
    ledgers: Mapping[str, Ledger]
    """By endpoint."""
    endpoint_of_arm: Mapping[str, str | None]
    """In the order of the table."""
    planned: Mapping[str, int]
    """Trials by arm."""
    solved_at: float
    void_threshold: float
    seed: int


def summarise(facts: RunFacts) -> Summary:
    """Count, divide, and say what is unknown."""
    arms = tuple(_arm(arm, facts) for arm in facts.endpoint_of_arm)
    ended = sum(arm.counted + arm.void for arm in arms)
    void_share = sum(arm.void for arm in arms) / ended if ended else 0.0
    return Summary(
        arms=arms,
        endpoints=tuple(_endpoint(name, facts) for name in facts.costs),
        void_share=void_share,
        solved_at=facts.solved_at,
        warnings=(*_warnings(arms, void_share, facts.void_threshold), *_unrecorded(facts)),
    )


def _arm(arm: str, facts: RunFacts) -> ArmSummary:
    mine = [result for result in facts.results if result.arm == arm]
    outcomes = Counter(result.outcome for result in mine)
    counted = [result for result in mine if is_counted(result.outcome, result.reason)]
    voids = [result for result in mine if result.outcome is Outcome.VOID]
    per_task: dict[str, list[bool]] = {}
    for result in counted:
        per_task.setdefault(result.task_id, []).append(result.outcome is Outcome.SOLVED)
    interval = stats.headline_interval(per_task, seed=facts.seed)
    rewards = [r.reward for r in counted if r.reward is not None and _is_believed(r)]
    endpoint = facts.endpoint_of_arm[arm]
    ledger = facts.ledgers.get(endpoint) if endpoint else None
    used = ledger.arm(arm) if ledger else None
    ttft, itl = _latencies(facts.calls.get(arm, ()))
    solved = outcomes[Outcome.SOLVED]
    return ArmSummary(
        arm=arm,
        endpoint=endpoint,
        planned=facts.planned[arm],
        solved=solved,
        counted=len(counted),
        void=len(voids),
        unsupported=outcomes[Outcome.UNSUPPORTED],
        cancelled=outcomes[Outcome.CANCELLED],
        missing=facts.planned[arm] - len(mine),
        voids_by_reason=dict(Counter(str(result.reason) for result in voids).most_common()),
        solve_rate=stats.solved_share(per_task),
        interval=(interval.low, interval.high) if interval else None,
        interval_method=interval.method if interval else None,
        bracket=stats.bracket(per_task, Counter(result.task_id for result in voids)),
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
        steps=sum(result.usage.steps for result in mine),
        steps_median=stats.median_or_none(r.usage.steps for r in counted) if endpoint else None,
        prompt_tokens=stats.total_or_none(result.usage.prompt_tokens for result in mine),
        cached_tokens=stats.total_or_none(result.usage.cached_tokens for result in mine),
        completion_tokens=stats.total_or_none(r.usage.completion_tokens for r in mine),
        wall_seconds_median=stats.median_or_none(result.seconds for result in counted),
        queue_seconds_median=stats.median_or_none(result.queue_seconds for result in counted),
        model_seconds=_model_seconds(arm, facts),
        ttft_seconds_median=ttft,
        itl_seconds_median=itl,
        device=ledger.device if ledger else None,
        device_hours=used.attributed.device_hours if used else None,
        all_in_hours=used.all_in.device_hours if used else None,
        cost=_money(used.all_in if used else None),
        currency=ledger.currency if ledger else None,
        cost_per_task=_money(used.per_task if used else None),
        cost_per_solved=_money(used.per_solved if used else None),
        list_price_cost=ledger.list_price_cost(arm) if ledger else None,
    )


def _is_believed(result: Result) -> bool:
    return result.reason is None or RULES[result.reason].graded


def _latencies(calls: Iterable[Call]) -> tuple[float | None, float | None]:
    """Medians of TTFT and of the gaps between pieces."""
    first_tokens, gaps = array("d"), array("d")
    for call in calls:
        if call.first_token_seconds is not None:
            first_tokens.append(call.first_token_seconds)
        gaps.extend(call.token_gaps_seconds)
    return stats.median_or_none(first_tokens), stats.median_or_none(gaps)


def _endpoint(name: str, facts: RunFacts) -> EndpointSummary:
    ledger = facts.ledgers[name]
    split = ledger.split("in_flight")
    return EndpointSummary(
        endpoint=name,
        device=ledger.device,
        total_hours=ledger.total.device_hours if ledger.total else None,
        attributed_hours=split.attributed.device_hours if split else None,
        voided_hours=split.voided.device_hours if split else None,
        unattributed_hours=split.unattributed.device_hours if split else None,
        cost=_money(ledger.total),
        currency=ledger.currency,
        restarts=sum(cost.restarts for cost in facts.costs[name]),
    )


def _money(amount: Amount | None) -> float | None:
    return None if amount is None or amount.cost is None else float(amount.cost)


def _arms_of(endpoint: str, facts: RunFacts) -> list[str]:
    return [arm for arm, name in facts.endpoint_of_arm.items() if name == endpoint]


def _model_seconds(arm: str, facts: RunFacts) -> float:
    return sum(result.usage.model_seconds for result in facts.results if result.arm == arm)


def _warnings(arms: Sequence[ArmSummary], void_share: float, threshold: float) -> tuple[str, ...]:
    found = []
    if void_share > threshold:
        found.append(
            f"{void_share:.0%} of the trials are void, more than the {threshold:.0%} allowed: "
            "read the brackets, not the rates"
        )
    unfinished = sum(arm.missing + arm.cancelled for arm in arms)
    if unfinished:
        found.append(f"{unfinished} trials are not finished; `rackbench resume` goes on")
    return tuple(found)


def _unrecorded(facts: RunFacts) -> tuple[str, ...]:
    """A runner that is killed hard leaves no cost record: say so rather than sum up too little."""
    found = []
    for name, costs in facts.costs.items():
        if all(cost.device is None for cost in costs):
            continue
        arms = set(_arms_of(name, facts))
        outside = sum(
            not any(cost.launched_at <= result.started_at <= cost.stopped_at for cost in costs)
            for result in facts.results
            if result.arm in arms and result.usage.model_seconds
        )
        if outside:
            found.append(
                f"{outside} trials used {name} at a time whose hours were never written down: its "
                "hours and cost are more than shown"
            )
    return tuple(found)
