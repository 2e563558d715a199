"""The line of one attempt: its own address and key, its calls, its budget."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass

from rackbench.gateway.journal import Journal
from rackbench.gateway.meter import CallMeter, is_answered, usage_of
from rackbench.gateway.policy import Policy
from rackbench.gateway.upstream import Upstream
from rackbench_results.records import Call, Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """What one attempt may use; None is no limit."""

    max_steps: int | None = None
    max_tokens: int | None = None
    """Prompt and completion tokens of all calls together."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a line is reached, and the secret that opens it."""

    base_url: str
    api_key: str


class Line:
    """What a harness's model calls go through; every call ends in exactly one record."""

    def __init__(
        self,
        upstream: Upstream,
        policy: Policy,
        *,
        access: Access,
        budget: Budget,
        journal: Journal,
    ) -> None:
        self.upstream = upstream
        self.policy = policy
        self.base_url = access.base_url
        """Ends in /v1."""
        self.api_key = access.api_key
        self.calls: list[Call] = []
        """Finished calls, in the order in which they finished."""
        self.endpoint_faults = 0
        """Calls that failed for reasons of the engine: unreachable, broken off, silent for too
        long, HTTP 5xx, an error inside an answer; not what was refused, nor clients that left."""
        self.probes = 0
        """Requests for something that is not served: noted, but no calls."""
        self._budget = budget
        self._journal = journal
        self._live: dict[CallMeter, asyncio.Task[object] | None] = {}
        self._begun = 0

    def usage(self) -> Usage:
        """Over the calls finished so far; after the line closed, over all of them."""
        return usage_of(self.calls)

    def opens_for(self, key: str) -> bool:
        """Whether a request brought the attempt's key."""
        return hmac.compare_digest(key.encode(), self.api_key.encode())

    def spent(self) -> str | None:
        """Which budget is used up, in words; calls in flight count as steps."""
        steps, tokens = self._budget.max_steps, self._budget.max_tokens
        if steps is not None:
            taken = sum(is_answered(call) for call in self.calls)
            if taken + len(self._live) - 1 >= steps:
                return f"all {steps} steps of this attempt are used"
        if tokens is not None:
            used = sum(call.context_tokens or 0 for call in self.calls)
            if used >= tokens:
                return f"{used} of {tokens} tokens of this attempt are used"
        return None

    def begin(self, path: str) -> CallMeter:
        """A call came in; the running task serves it."""
        self._begun += 1
        meter = CallMeter(self._begun, path)
        self._live[meter] = asyncio.current_task()
        return meter

    def finish(self, meter: CallMeter) -> None:
        """The engine's answer is whole, whatever it says."""
        if meter in self._live:
            meter.reader.end()
            status = meter.status or 0
            hidden = status == 200 and meter.reader.reading.error is not None
            self._end(meter, meter.record(), is_fault=status >= 500 or hidden)

    def fail(self, meter: CallMeter, error: str, *, status: int | None = None) -> None:
        """The engine broke down; `status` is what the harness is told, if it can still be told."""
        meter.status = status or meter.status
        self._end(meter, meter.record(error=error), is_fault=True)

    def refuse(self, meter: CallMeter, error: str, *, status: int) -> None:
        """The gateway itself says no."""
        meter.status = status
        self._end(meter, meter.record(error=error))

    def left(self, meter: CallMeter) -> None:
        """The harness went away before the answer was whole."""
        self._end(meter, meter.record(client_gone=True))

    def close(self) -> None:
        """End what is still in flight."""
        for meter, task in list(self._live.items()):
            self._end(meter, meter.record(error="the attempt was over before the answer was"))
            if task:
                task.cancel()

    def _end(self, meter: CallMeter, call: Call, *, is_fault: bool = False) -> None:
        if meter not in self._live:
            return  # its record stands already: what comes after the end changes nothing
        del self._live[meter]
        self.calls.append(call)
        self.endpoint_faults += is_fault
        self._journal.add(call)
