"""What was measured: one record per call, and the sums over an attempt."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from rackbench.gateway.chat import NAME, NoReader, Reader
from rackbench_results.records import Call, Usage

_DIGITS = 6
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks for, before and after policy."""

    model_requested: str | None
    model_sent: str | None
    streamed: bool
    policy: tuple[str, ...]


class CallMeter:
    """Takes the times and counts of one call while it passes."""

    def __init__(self, number: int, path: str) -> None:
        self.number = number
        self.path = path
        self.asked = Asked(None, None, streamed=False, policy=())
        self.request_bytes = 0
        self.response_bytes = 0
        self.status: int | None = None
        self.reader: Reader = NoReader()
        self._at = datetime.now(UTC)
        self._began = time.perf_counter()
        self._sent: float | None = None
        self._first_byte: float | None = None
        self._first_token: float | None = None
        self._last_token: float | None = None
        self._gaps: list[float] = []

    def sent(self) -> None:
        """The request goes to the engine now."""
        self._sent = self._elapsed()

    def answered(self, status: int, reader: Reader) -> None:
        """The engine's status and headers are there."""
        self._first_byte = self._elapsed()
        self.status = status
        self.reader = reader

    def received(self, data: bytes) -> None:
        """A part of the body is there; several pieces in one part came at the same moment."""
        now = self._elapsed()
        self.response_bytes += len(data)
        for _ in range(self.reader.feed(data)):
            if self._last_token is None:
                self._first_token = now
            else:
                self._gaps.append(round(now - self._last_token, _DIGITS))
            self._last_token = now

    def record(self, *, error: str | None = None, client_gone: bool = False) -> Call:
        """The finished call; an error inside the answer is found by itself."""
        reading, asked = self.reader.reading, self.asked
        error = error or reading.error
        if error and self.status is not None and self.status >= 400:
            error = f"HTTP {self.status}: {error}"
        return Call(
            number=self.number,
            received_at=self._at,
            dialect=NAME,
            path=self.path,
            model_requested=asked.model_requested,
            model_sent=asked.model_sent,
            streamed=asked.streamed,
            status=self.status,
            error=error,
            client_gone=client_gone,
            sent_seconds=self._sent,
            first_byte_seconds=self._first_byte,
            first_token_seconds=self._first_token,
            last_token_seconds=self._last_token,
            finished_seconds=self._elapsed(),
            token_gaps_seconds=tuple(self._gaps),
            prompt_tokens=reading.prompt_tokens,
            cached_tokens=reading.cached_tokens,
            completion_tokens=reading.completion_tokens,
            reasoning_tokens=reading.reasoning_tokens,
            finish_reason=reading.finish_reason,
            tool_calls=reading.tool_calls,
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
            policy=asked.policy,
        )

    def _elapsed(self) -> float:
        return round(time.perf_counter() - self._began, _DIGITS)


def is_answered(call: Call) -> bool:
    """Whether the model's answer reached its end: a harness may leave before the last bytes."""
    is_whole = call.finish_reason is not None or not call.client_gone
    return call.status == 200 and call.error is None and is_whole


def usage_of(calls: Sequence[Call]) -> Usage:
    """Sums and medians; tokens are summed over the calls that report them."""
    steps = sum(is_answered(call) for call in calls)
    return Usage(
        calls=len(calls),
        failed_calls=len(calls) - steps,
        steps=steps,
        prompt_tokens=_sum(call.prompt_tokens for call in calls),
        cached_tokens=_sum(call.cached_tokens for call in calls),
        completion_tokens=_sum(call.completion_tokens for call in calls),
        reasoning_tokens=_sum(call.reasoning_tokens for call in calls),
        max_context_tokens=max(_known(call.context_tokens for call in calls), default=None),
        model_seconds=sum(_model_seconds(call) for call in calls),
        ttft_seconds_median=_median(_known(call.first_token_seconds for call in calls)),
        itl_seconds_median=_median([gap for call in calls for gap in call.token_gaps_seconds]),
    )


def _model_seconds(call: Call) -> float:
    if call.sent_seconds is None or call.finished_seconds is None:
        return 0.0
    return call.finished_seconds - call.sent_seconds


def _sum(values: Iterable[int | None]) -> int | None:
    known = _known(values)
    return sum(known) if known else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _known(values: Iterable[N | None]) -> list[N]:
    return [value for value in values if value is not None]
