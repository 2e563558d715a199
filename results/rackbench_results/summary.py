"""Every derived number of a run, from its records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rackbench_results import stats
from rackbench_results.outcomes import Outcome, is_counted
from rackbench_results.records import Call, EndpointCost, Record, Result


class ArmSummary(Record):
    """One arm's numbers; None is unknown, never zero."""

    arm: str
    endpoint: str | None
    planned: int
    """Trials of the plan."""
    solved: int
    counted: int
    void: int
    unsupported: int
    cancelled: int
    missing: int
    """Trials that have no result yet."""
    voids_by_reason: dict[str, int]
    solve_rate: float | None
    """Mean over tasks of the solved share of counted trials."""
    interval: tuple[float, float] | None
    """95 %."""
    interval_method: str | None
    bracket: tuple[float, float] | None
    """Voids as unsolved … voids left out."""
    mean_reward: float | None
    """Over trials whose reward is known."""
    steps: int
    steps_median: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    wall_seconds_median: float | None
    queue_seconds_median: float | None
    model_seconds: float
    ttft_seconds_median: float | None
    itl_seconds_median: float | None
    """Between successive pieces of streams."""
    device: Literal["gpu", "cpu"] | None
    device_hours: float | None
    """Its share of its endpoint's hours."""
    cost: float | None
    currency: str | None
    cost_per_solved: float | None
    """None where nothing was solved or no price was given."""


class EndpointSummary(Record):
    """What an endpoint used, and whose it was: attributed + unattributed = total."""

    endpoint: str
    device: Literal["gpu", "cpu"] | None
    total_hours: float | None
    attributed_hours: float | None
    unattributed_hours: float | None
    """While no call was in flight: load, warm-up, idle, drain."""
    cost: float | None
    currency: str | None
    restarts: int


class Summary(Record):
    """`summary.json`."""

    schema_version: Literal[1] = 1
    arms: tuple[ArmSummary, ...]
    endpoints: tuple[EndpointSummary, ...]
    void_share: float
    """Of all trials that ended as solved, unsolved or void."""
    solved_at: float
    warnings: tuple[str, ...]
    """What must be read before any number."""
    attribution: str = "device-hours in use, by each arm's share of model time"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a summary is made from."""

    results: Sequence[Result]
    """One a trial."""
    calls: Mapping[str, Sequence[Call]]
    """By arm."""
    costs: Mapping[str, Sequence[EndpointCost]]
    """By endpoint; one for each time that it was up."""
    endpoint_of_arm: Mapping[str, str | None]
    """In the order of the table."""
    planned: Mapping[str, int]
    """Trials by arm."""
    solved_at: float
    void_threshold: float
    seed: int


def summarise(facts: RunFacts) -> Summary:
    """Count, divide, and say what is unknown."""
    endpoints = {name: _endpoint(name, facts) for name in facts.costs}
    arms = tuple(_arm(arm, facts, endpoints) for arm in facts.endpoint_of_arm)
    ended = sum(arm.counted + arm.void for arm in arms)
    void_share = sum(arm.void for arm in arms) / ended if ended else 0.0
    return Summary(
        arms=arms,
        endpoints=tuple(endpoints.values()),
        void_share=void_share,
        solved_at=facts.solved_at,
        warnings=_warnings(arms, void_share, facts.void_threshold),
    )


def _arm(arm: str, facts: RunFacts, endpoints: Mapping[str, EndpointSummary]) -> ArmSummary:
    mine = [result for result in facts.results if result.arm == arm]
    outcomes = Counter(result.outcome for result in mine)
    counted = [result for result in mine if is_counted(result.outcome, result.reason)]
    per_task: dict[str, list[bool]] = {}
    for result in counted:
        per_task.setdefault(result.task_id, []).append(result.outcome is Outcome.SOLVED)
    interval = stats.headline_interval(per_task, seed=facts.seed)
    solved, void = outcomes[Outcome.SOLVED], outcomes[Outcome.VOID]
    calls = facts.calls.get(arm, ())
    rewards = [result.reward for result in mine if result.reward is not None]
    endpoint = facts.endpoint_of_arm[arm]
    hours, cost = _share(arm, facts, endpoints)
    used = endpoints.get(endpoint) if endpoint else None
    return ArmSummary(
        arm=arm,
        endpoint=endpoint,
        planned=facts.planned[arm],
        solved=solved,
        counted=len(counted),
        void=void,
        unsupported=outcomes[Outcome.UNSUPPORTED],
        cancelled=outcomes[Outcome.CANCELLED],
        missing=facts.planned[arm] - len(mine),
        voids_by_reason=dict(
            Counter(str(r.reason) for r in mine if r.outcome is Outcome.VOID).most_common()
        ),
        solve_rate=stats.solved_share(per_task),
        interval=(interval.low, interval.high) if interval else None,
        interval_method=interval.method if interval else None,
        bracket=stats.bracket(solved, len(counted), void),
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
        steps=sum(result.usage.steps for result in mine),
        steps_median=stats.median(r.usage.steps for r in counted) if endpoint else None,
        prompt_tokens=stats.total(result.usage.prompt_tokens for result in mine),
        cached_tokens=stats.total(result.usage.cached_tokens for result in mine),
        completion_tokens=stats.total(result.usage.completion_tokens for result in mine),
        wall_seconds_median=stats.median(result.seconds for result in mine),
        queue_seconds_median=stats.median(result.queue_seconds for result in mine),
        model_seconds=sum(result.usage.model_seconds for result in mine),
        ttft_seconds_median=stats.median(call.first_token_seconds for call in calls),
        itl_seconds_median=stats.median(gap for c in calls for gap in c.token_gaps_seconds),
        device=used.device if used else None,
        device_hours=hours,
        cost=cost,
        currency=used.currency if used else None,
        cost_per_solved=cost / solved if cost is not None and solved else None,
    )


def _endpoint(name: str, facts: RunFacts) -> EndpointSummary:
    """Hours of all the times that an endpoint was up; in use means that a call was in flight."""
    costs = facts.costs[name]
    known = [cost for cost in costs if cost.device_hours is not None]
    total = sum(cost.device_hours or 0.0 for cost in known) if known else None
    in_use = sum((cost.devices or 0) * cost.scored_seconds / 3600 for cost in known)
    prices = [cost.price for cost in costs]
    somebody = any(_model_seconds(arm, facts) for arm in _arms_of(name, facts))
    attributed = (min(in_use, total) if somebody else 0.0) if total is not None else None
    return EndpointSummary(
        endpoint=name,
        device=costs[0].device if costs else None,
        total_hours=total,
        attributed_hours=attributed,
        unattributed_hours=total - (attributed or 0.0) if total is not None else None,
        cost=sum(p for p in prices if p is not None) if prices and None not in prices else None,
        currency=costs[0].currency if costs else None,
        restarts=sum(cost.restarts for cost in costs),
    )


def _share(
    arm: str, facts: RunFacts, endpoints: Mapping[str, EndpointSummary]
) -> tuple[float | None, float | None]:
    """An arm's part of its endpoint's hours in use, and of their cost."""
    name = facts.endpoint_of_arm[arm]
    endpoint = endpoints.get(name) if name else None
    if name is None or endpoint is None or endpoint.attributed_hours is None:
        return None, None
    everybody = sum(_model_seconds(other, facts) for other in _arms_of(name, facts))
    share = _model_seconds(arm, facts) / everybody if everybody else 0.0
    hours = endpoint.attributed_hours * share
    if endpoint.cost is None or not endpoint.total_hours:
        return hours, None
    return hours, endpoint.cost * hours / endpoint.total_hours


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
