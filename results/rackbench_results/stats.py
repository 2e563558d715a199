"""Statistics of solve rates: small, stated, never NaN. Tasks are the unit, not trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Shares = Mapping[str, Sequence[bool]]
"""Solved or not, for each counted attempt, by task."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, and how it was made."""

    low: float
    high: float
    method: str


def solved_share(per_task: Shares) -> float | None:
    """Mean over tasks of each task's solved share; None where nothing was counted."""
    shares = _shares(per_task)
    return statistics.fmean(shares) if shares else None


def bracket(solved: int, counted: int, void: int) -> tuple[float, float] | None:
    """Solve rate with the voids as unsolved, and with the voids left out."""
    if counted == 0:
        return None
    return solved / (counted + void), solved / counted


def wilson(successes: int, count: int, confidence: float = 0.95) -> Interval | None:
    """Wilson score interval of a proportion (E. B. Wilson, JASA 22, 1927)."""
    if count == 0:
        return None
    from scipy.stats import binomtest  # noqa: PLC0415  # half a second that `--help` need not pay

    found = binomtest(successes, count).proportion_ci(confidence, method="wilson")
    return Interval(float(found.low), float(found.high), "Wilson")


def task_bootstrap(
    per_task: Shares, *, seed: int, resamples: int = 10_000, confidence: float = 0.95
) -> Interval | None:
    """Percentile bootstrap of the mean share, tasks resampled with their attempts inside.

    Repeats of one task are not independent, so tasks are drawn, and attempts within each
    (two-stage cluster bootstrap; Davison & Hinkley, Bootstrap Methods, 1997, section 3.8).
    """
    import numpy as np  # noqa: PLC0415

    tasks = [np.asarray(attempts, dtype=float) for attempts in per_task.values() if len(attempts)]
    if not tasks:
        return None
    rng = np.random.default_rng(seed)
    # Mean of each task's redrawn attempts, for every resample at once.
    drawn = np.stack(
        [rng.binomial(len(task), task.mean(), resamples) / len(task) for task in tasks], axis=1
    )
    chosen = rng.integers(0, len(tasks), (resamples, len(tasks)))
    means = np.take_along_axis(drawn, chosen, axis=1).mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high), "task bootstrap")


def headline_interval(per_task: Shares, *, seed: int) -> Interval | None:
    """The interval beside a solve rate: Wilson at one attempt a task, else bootstrap over tasks."""
    counted = [attempts for attempts in per_task.values() if len(attempts)]
    if all(len(attempts) == 1 for attempts in counted):
        return wilson(sum(attempts[0] for attempts in counted), len(counted))
    return task_bootstrap(per_task, seed=seed)


def pass_at_k(attempts: int, solved: int, k: int) -> float | None:
    """Chance that one of k attempts solves: 1 - C(n-c, k) / C(n, k); None where k > n.

    Unbiased (Chen et al., Evaluating Large Language Models Trained on Code, 2021).
    """
    if not 1 <= k <= attempts:
        return None
    return 1 - math.comb(attempts - solved, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, solved: int, k: int) -> float | None:
    """Chance that all of k attempts solve: C(c, k) / C(n, k); None where k > n."""
    if not 1 <= k <= attempts:
        return None
    return math.comb(solved, k) / math.comb(attempts, k)


def median(values: Iterable[float | None]) -> float | None:
    """Median of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def total(values: Iterable[int | None]) -> int | None:
    """Sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _shares(per_task: Shares) -> list[float]:
    return [sum(attempts) / len(attempts) for attempts in per_task.values() if len(attempts)]
