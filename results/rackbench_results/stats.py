"""Statistics of solve rates: small, stated, never NaN. Tasks are the unit, not trials."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

# numpy and scipy are imported where they are needed: `--help` need not wait for them.

Shares = Mapping[str, Sequence[bool]]
"""Solved or not, for each counted attempt, by task."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, and how it was made."""

    low: float
    high: float
    method: str


def solved_share(per_task: Shares) -> float | None:
    """Mean over tasks of each task's solved share; None where nothing was counted.

    (1/T) Σ_t c_t / n_t, so that a task with more attempts weighs no more than another.
    """
    shares = _shares(per_task)
    return statistics.fmean(shares) if shares else None


def bracket(per_task: Shares, voids: Mapping[str, int]) -> tuple[float, float] | None:
    """Solved share with the voids as unsolved, and with the voids left out.

    (1/T) Σ_t c_t / (n_t + v_t) over all tasks, and `solved_share`; None where nothing was counted.
    """
    high = solved_share(per_task)
    if high is None:
        return None
    tasks = {task for task, count in voids.items() if count} | {t for t in per_task if per_task[t]}
    low = statistics.fmean(
        sum(per_task.get(task, ())) / (len(per_task.get(task, ())) + voids.get(task, 0))
        for task in tasks
    )
    return low, high


def wilson(successes: float, count: int, confidence: float = 0.95) -> Interval | None:
    """Wilson score interval of a proportion; None for a count of zero.

    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) (E. B. Wilson, JASA 22, 1927).
    """
    if count == 0:
        return None
    from scipy.special import ndtri  # noqa: PLC0415

    z = float(ndtri((1 + confidence) / 2))
    share, weight = successes / count, z * z / count
    middle = share + weight / 2
    half = z * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    # At the ends the formula is exact, its rounding is not.
    low = 0.0 if successes == 0 else (middle - half) / (1 + weight)
    high = 1.0 if successes == count else (middle + half) / (1 + weight)
    return Interval(low, high, "Wilson")


def task_bootstrap(
    per_task: Shares, *, seed: int, resamples: int = 10_000, confidence: float = 0.95
) -> Interval | None:
    """Percentile bootstrap of the mean share; None where nothing was counted.

    Tasks are drawn with replacement, each with all its attempts: repeats of a task are not
    independent, and drawing them once more would count their noise twice (Davison & Hinkley,
    Bootstrap Methods and their Application, 1997, section 3.8, strategy 1).
    """
    shares = _shares(per_task)
    if not shares:
        return None
    import numpy as np  # noqa: PLC0415

    values, count = np.asarray(shares), len(shares)
    rng = np.random.default_rng(seed)
    # One at a time: all at once would be gigabytes at thousands of tasks.
    means = [values[rng.integers(0, count, count)].mean() for _ in range(resamples)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high), "task bootstrap")


def headline_interval(per_task: Shares, *, seed: int) -> Interval | None:
    """The 95 % interval beside a solve rate, by a rule that its method tells.

    - One attempt a task, or one task: Wilson over the attempts.
    - All tasks have the same share: Wilson with each task counted once, since a bootstrap has
      nothing to vary and would claim certainty.
    - Otherwise: bootstrap over tasks.
    """
    shares = _shares(per_task)
    attempts = [solved for attempts in per_task.values() for solved in attempts]
    if len(shares) <= 1 or len(attempts) == len(shares):
        return wilson(sum(attempts), len(attempts))
    if len(set(shares)) == 1:
        found = wilson(sum(shares), len(shares))
        return found and replace(found, method="Wilson, tasks")
    return task_bootstrap(per_task, seed=seed)


def pass_at_k(attempts: int, solved: int, k: int) -> float | None:
    """Chance that one of k attempts solves: 1 - C(n-c, k) / C(n, k); None where k > n or k < 1.

    Unbiased (Chen et al., Evaluating Large Language Models Trained on Code, 2021).
    """
    if not 1 <= k <= attempts:
        return None
    return 1 - math.comb(attempts - solved, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, solved: int, k: int) -> float | None:
    """Chance that all of k attempts solve: C(c, k) / C(n, k); None where k > n or k < 1.

    Unbiased (Yao et al., τ-bench, 2024).
    """
    if not 1 <= k <= attempts:
        return None
    return math.comb(solved, k) / math.comb(attempts, k)


def quantile(values: Iterable[float | None], share: float) -> float | None:
    """Quantile of what is known, linear between neighbours; None where nothing is known.

    Hyndman & Fan, Sample Quantiles in Statistical Packages, 1996, definition 7.
    """
    # Gaps between tokens come by the million; eight bytes each.
    known = array("d", (value for value in values if value is not None))
    if not known:
        return None
    import numpy as np  # noqa: PLC0415

    return float(np.quantile(np.frombuffer(known), share))


def median_or_none(values: Iterable[float | None]) -> float | None:
    """Median of what is known; None where nothing is."""
    return quantile(values, 0.5)


def total_or_none(values: Iterable[int | None]) -> int | None:
    """Sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _shares(per_task: Shares) -> list[float]:
    return [sum(attempts) / len(attempts) for attempts in per_task.values() if attempts]
