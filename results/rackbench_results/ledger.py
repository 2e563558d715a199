"""The cost of a run: what its engines used, phase by phase, and whose it was.

attributed + voided + unattributed = total, to the last digit, by every method.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from rackbench_results.records import Record

Money = Annotated[Decimal, PlainSerializer(float, when_used="json")]
Method = Literal["in_flight", "tokens", "kv_occupancy"]
METHODS: tuple[Method, ...] = ("in_flight", "tokens", "kv_occupancy")
Activity = Literal["load", "warmup", "scored", "idle", "drain"]
PHASES: tuple[Activity, ...] = ("load", "warmup", "scored", "idle", "drain")


class Amount(Record):
    """A part of what an endpoint used; None is unknown."""

    device_hours: float
    cost: Money | None = None
    """In the ledger's currency."""
    joules: float | None = None
    """Of the boards of the GPUs alone."""


class TrialCost(Record):
    """What one trial's final attempt used of its endpoint."""

    trial: str
    """task/arm/index."""
    task: str
    arm: str
    by_method: dict[Method, Amount]
    """Without the methods that lack what they need."""
    list_price_cost: Money | None = None
    """What the same tokens would have cost at the list price; None where none is given."""


class ArmCost(Record):
    """An arm's part of its endpoint, by one method."""

    arm: str
    method: Method
    trials: int
    solved: int
    attributed: Amount
    """While its calls were in flight."""
    all_in: Amount
    """Its share of everything, load and idling too, in proportion to what is attributed."""
    per_trial: Amount | None
    per_task: Amount | None
    per_solved: Amount | None
    """None where nothing is solved."""


class MethodTotal(Record):
    """How one method splits the total."""

    method: Method
    rule: str
    attributed: Amount
    voided: Amount
    """Of attempts that say nothing about the model: void, cancelled, cut off, repeated."""
    unattributed: Amount
    """Load, warm-up, idling, drain."""


class Ledger(Record):
    """What one endpoint of a run used."""

    schema_version: Literal[1] = 1
    endpoint: str
    device: Literal["gpu", "cpu"] | None
    devices: int | None
    """The most at once."""
    total: Amount | None
    """Devices times wall time from launch to exit; None where the devices are not known."""
    phases: dict[Activity, Amount] = Field(default_factory=dict)
    currency: str | None = None
    price_per_device_hour: float | None = None
    """None where none was given, or where it changed between two starts."""
    price_date: str | None = None
    price_source: str | None = None
    concurrency: float | None = None
    """Mean number of calls in flight while there was one: cost per trial depends on it."""
    methods: tuple[MethodTotal, ...] = ()
    arms: tuple[ArmCost, ...] = ()
    trials: tuple[TrialCost, ...] = ()
    notes: tuple[str, ...] = ()
    """What must be known to read the numbers."""

    def split(self, method: Method) -> MethodTotal | None:
        """How one method splits the total; None where it lacks what it needs."""
        return next((total for total in self.methods if total.method == method), None)

    def arm(self, name: str, method: Method = "in_flight") -> ArmCost | None:
        """An arm's part by one method; None where its hours are not known."""
        return next((a for a in self.arms if (a.arm, a.method) == (name, method)), None)

    def list_price_cost(self, arm: str) -> float | None:
        """What an API would have asked for an arm's counted trials; None where not all are known."""
        costs = [trial.list_price_cost for trial in self.trials if trial.arm == arm]
        known = [cost for cost in costs if cost is not None]
        return float(sum(known)) if known and len(known) == len(costs) else None
