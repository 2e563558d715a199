"""Whose a shared engine's time was: three rules, and money that adds up to the last digit.

Every rule shares out the same pool: the time with at least one scored call in flight. What is
left of the total is unattributed, whatever the rule.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

K = TypeVar("K", bound=str)
QUANTUM = Decimal("0.000001")
"""Of a currency: the smallest part that is shared out."""
_CALIBRATION_WINDOW_SECONDS = 10.0
_CALIBRATION_WINDOWS = 30
"""Fewer windows than this say nothing about three weights."""


@dataclass(frozen=True, slots=True)
class CallSpan:
    """One model call, as far as its cost goes; times are seconds since the epoch, UTC."""

    attempt: str
    """Whose it is."""
    begin: float
    first_token: float | None
    end: float
    prompt_tokens: int | None = None
    """Cached ones included."""
    cached_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def computed_tokens(self) -> int | None:
        """Prompt tokens that were not in the cache; unknown cached ones count as computed."""
        if self.prompt_tokens is None:
            return None
        return max(0, self.prompt_tokens - (self.cached_tokens or 0))


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """What a token costs, relative to the others."""

    prompt: float
    cached: float
    completion: float
    origin: str
    """Stated in the run file, calibrated on the run, the ratio of a list price …"""


@dataclass(frozen=True, slots=True)
class Busy:
    """What the calls of one stretch of time did to an engine."""

    seconds: float
    """With at least one call in flight."""
    shares: Mapping[str, float]
    """Of these seconds, by attempt, each instant split evenly between the attempts with a call in
    flight."""
    concurrency: float | None
    """Mean number of calls in flight while there was one."""


def clip(spans: Iterable[CallSpan], begin: float, end: float) -> list[CallSpan]:
    """Calls within a stretch of time, cut at its ends."""
    kept = []
    for span in spans:
        first, last = max(span.begin, begin), min(span.end, end)
        if first < last:
            kept.append(
                CallSpan(
                    span.attempt,
                    first,
                    span.first_token,
                    last,
                    span.prompt_tokens,
                    span.cached_tokens,
                    span.completion_tokens,
                )
            )
    return kept


def in_flight(spans: Sequence[CallSpan]) -> Busy:
    """Each instant split evenly between the attempts with a call in flight.

    A clock that runs at 1/n while n attempts are in flight gives every attempt its share as a
    difference of two readings, so that this takes n log n.
    """
    edges = sorted(
        [(span.begin, 1, span.attempt) for span in spans]
        + [(span.end, -1, span.attempt) for span in spans]
    )
    shares: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    since: dict[str, float] = {}
    clock = busy = last = 0.0
    for at, change, attempt in edges:
        if since:
            clock += (at - last) / len(since)
            busy += at - last
        last = at
        calls[attempt] += change
        if change > 0 and calls[attempt] == 1:
            since[attempt] = clock
        elif calls[attempt] == 0:
            shares[attempt] += clock - since.pop(attempt)
    total = math.fsum(span.end - span.begin for span in spans)
    return Busy(busy, dict(shares), total / busy if busy else None)


def by_tokens(spans: Sequence[CallSpan], weights: TokenWeights) -> dict[str, float]:
    """Weight of each attempt: a·computed prompt + b·cached prompt + c·completion tokens."""
    found: dict[str, float] = defaultdict(float)
    for span in spans:
        found[span.attempt] += (
            weights.prompt * (span.computed_tokens or 0)
            + weights.cached * min(span.cached_tokens or 0, span.prompt_tokens or 0)
            + weights.completion * (span.completion_tokens or 0)
        )
    return dict(found)


def by_occupancy(spans: Sequence[CallSpan]) -> dict[str, float]:
    """Token-seconds in the KV cache of each attempt: what limits how many long sessions fit.

    In flight: the prompt and half of the answer, which grows. Between two calls: what the later
    one found cached, and so was held for it all the while.
    """
    found: dict[str, float] = defaultdict(float)
    before: dict[str, CallSpan] = {}
    for span in sorted(spans, key=lambda span: span.begin):
        held = (span.prompt_tokens or 0) + (span.completion_tokens or 0) / 2
        found[span.attempt] += held * (span.end - span.begin)
        if earlier := before.get(span.attempt):
            waited = max(0.0, span.begin - earlier.end)
            context = (earlier.prompt_tokens or 0) + (earlier.completion_tokens or 0)
            found[span.attempt] += min(span.cached_tokens or 0, context) * waited
        before[span.attempt] = span
    return dict(found)


def calibrate(spans: Sequence[CallSpan]) -> tuple[TokenWeights, float] | None:
    """Weights that explain the engine's busy time in this very run, and their R².

    Non-negative least squares of the busy seconds of ten-second windows on the tokens worked on in
    them (C. Lawson, R. Hanson, Solving Least Squares Problems, 1974). None where the run is too
    short or too uniform to tell the three apart.
    """
    import numpy as np  # noqa: PLC0415  # takes its time
    from scipy.optimize import nnls  # noqa: PLC0415

    rows = _windows(spans)
    if len(rows) < _CALIBRATION_WINDOWS:
        return None
    tokens, busy = np.asarray([row[:3] for row in rows]), np.asarray([row[3] for row in rows])
    scale = tokens.max(axis=0)
    if not scale.all() or np.linalg.matrix_rank(tokens / scale) < len(scale):
        return None
    found, _ = nnls(tokens / scale, busy)
    spread = float(((busy - busy.mean()) ** 2).sum())
    left = float(((busy - (tokens / scale) @ found) ** 2).sum())
    if not spread or not found[0] or not found[2]:
        return None
    prompt, cached, completion = (float(value) for value in found / scale)
    origin = f"calibrated on {len(rows)} windows of this run"
    weights = TokenWeights(1.0, cached / prompt, completion / prompt, origin)
    return weights, 1 - left / spread


def apportion(total: Decimal, weights: Mapping[K, float]) -> dict[K, Decimal]:
    """Share out an amount so that the parts add up to it exactly (largest remainder).

    Parts are multiples of QUANTUM, except that one takes what a total with more digits has beyond.
    An empty or weightless mapping gets nothing. Raises ValueError for a negative weight.
    """
    if any(weight < 0 or not math.isfinite(weight) for weight in weights.values()):
        raise ValueError(f"weights are finite and not negative, got {dict(weights)}")
    whole = math.fsum(weights.values())
    if not weights or whole <= 0:
        return dict.fromkeys(weights, Decimal(0))
    exact = {name: total * Decimal(weight / whole) for name, weight in weights.items()}
    parts = {name: (value // QUANTUM) * QUANTUM for name, value in exact.items()}
    left = total - sum(parts.values())
    for name in sorted(exact, key=lambda name: parts[name] - exact[name]):
        if left <= 0:
            break
        step = min(QUANTUM, left)
        parts[name] += step
        left -= step
    last = max(exact, key=lambda name: exact[name])
    parts[last] += left  # of rounding the weights themselves
    return parts


def _windows(spans: Sequence[CallSpan]) -> list[tuple[float, float, float, float]]:
    """Computed, cached and completion tokens and busy seconds of each window with calls in it."""
    rows: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for span in spans:
        first = span.end if span.first_token is None else min(span.first_token, span.end)
        first = max(first, span.begin)
        for index, share in _spread(span.begin, first):
            rows[index][0] += share * (span.computed_tokens or 0)
            rows[index][1] += share * (span.cached_tokens or 0)
        for index, share in _spread(first, span.end):
            rows[index][2] += share * (span.completion_tokens or 0)
    for begin, end in _union(spans):
        for index, share in _spread(begin, end):
            rows[index][3] += share * (end - begin)
    return [(row[0], row[1], row[2], row[3]) for row in rows.values()]


def _spread(begin: float, end: float) -> list[tuple[int, float]]:
    """The windows that a stretch of time lies in, with its share in each."""
    width = _CALIBRATION_WINDOW_SECONDS
    first, last = math.floor(begin / width), math.floor(end / width)
    if first == last:
        return [(first, 1.0)]
    found = []
    for index in range(first, last + 1):
        part = min(end, (index + 1) * width) - max(begin, index * width)
        found.append((index, part / (end - begin)))
    return found


def _union(spans: Sequence[CallSpan]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda span: span.begin):
        if merged and span.begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end))
        else:
            merged.append((span.begin, span.end))
    return merged
