"""An endpoint that is up: where it answers, who answers, and what its time was spent on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

import anyio

from rackbench.endpoint.profile import Profile
from rackbench.endpoint.settings import EndpointSettings
from rackbench.errors import EndpointError
from rackbench.gateway import Upstream
from rackbench_results.records import EndpointCost, EndpointIdentity

Report = Callable[[str], None]
"""Takes one line of progress."""


@dataclass(slots=True)
class Timeline:
    """When the parts of an endpoint's life began and how long they took."""

    launched_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    launched: float = field(default_factory=time.monotonic)
    load_seconds: float = 0.0
    warmup_seconds: float = 0.0
    work_ended: float | None = None
    """On the monotonic clock: when the last trial was over."""


class Serving:
    """A running endpoint, as trials and the gateway use it."""

    def __init__(
        self,
        upstream: Upstream,
        identity: EndpointIdentity,
        *,
        profile: Profile,
        device: Literal["gpu", "cpu"] | None = None,
        devices: int | None = None,
    ) -> None:
        self.upstream = upstream
        self.identity = identity
        self.profile = profile
        self.device: Literal["gpu", "cpu"] | None = device
        self.devices = devices
        self.tools = profile.tools
        self.crashes = 0
        self.timeline = Timeline()
        self.energy_joules: Callable[[], float | None] | None = None
        """Tells what its GPUs' boards used since launch, where somebody counts."""
        self._ready = anyio.Event()
        self._gone = anyio.Event()
        self._lost: str | None = None

    async def wait_ready(self) -> None:
        """Wait until it answers.

        Raises EndpointError once it has been given up.
        """
        await self._ready.wait()
        if self._lost:
            raise EndpointError(self._lost)

    def came_up(self) -> None:
        """It answers (again)."""
        self._ready.set()

    def went_down(self) -> None:
        """It stopped answering without being asked to: whoever was using it is void."""
        self.crashes += 1
        self._ready = anyio.Event()

    def given_up(self, why: str) -> None:
        """It will not come back."""
        self._lost = why
        self._ready.set()
        self._gone.set()

    async def until_lost(self) -> None:
        """Wait for ever, or until it has been given up.

        Raises EndpointError then: a run without its endpoint can only stop.
        """
        await self._gone.wait()
        raise EndpointError(self._lost or "the endpoint is gone")

    def cost(self, settings: EndpointSettings) -> EndpointCost:
        """What it used up to now, split into what it did in that time."""
        now, line = time.monotonic(), self.timeline
        total = now - line.launched
        drain = now - line.work_ended if line.work_ended else 0.0
        busy = self.upstream.busy_seconds()
        price = settings.price
        return EndpointCost(
            device=self.device,
            devices=self.devices,
            launched_at=line.launched_at,
            # Not the clock on the wall, which may be set meanwhile: the parts add up to the whole.
            stopped_at=line.launched_at + timedelta(seconds=total),
            load_seconds=line.load_seconds,
            warmup_seconds=line.warmup_seconds,
            scored_seconds=busy,
            idle_seconds=max(0.0, total - line.load_seconds - line.warmup_seconds - busy - drain),
            drain_seconds=drain,
            restarts=self.crashes,
            price_per_device_hour=price.per_device_hour if price else None,
            currency=price.currency if price else None,
            price_date=price.date if price else None,
            price_source=price.source if price else None,
            energy_joules=self.energy_joules() if self.energy_joules else None,
            list_price=self.profile.list_price,
            token_weights=settings.token_weights,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where an endpoint may write, and how its processes are labelled."""

    folder: Path
    """Its part of the run folder."""
    labels: dict[str, str]
    """Environment variables by which a process of ours is known after we are dead."""


class EndpointKind(Protocol):
    """A plug-in of the group `rackbench.endpoints`."""

    Settings: type[EndpointSettings]
    settings: EndpointSettings
    profile: Profile
    needs_preflight: bool
    """False for an endpoint whose answers are known anyway."""

    def __init__(self, settings: EndpointSettings, *, beside: Path) -> None: ...

    def identity(self) -> EndpointIdentity:
        """Who will answer, as far as the settings tell; a look at files, nothing is started.

        Raises UsageError, PrerequisiteError.
        """
        ...

    def serve(self, place: Place, report: Report) -> AbstractAsyncContextManager[Serving]:
        """The endpoint, up and watched until the context ends.

        Raises EndpointError, PrerequisiteError.
        """
        ...
