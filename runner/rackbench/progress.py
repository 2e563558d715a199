"""What is going on in a run, told to whoever looks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rackbench_results.records import Result

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The plan is made, its endpoints come next."""

    run_id: str
    folder: str
    trials: int
    finished: int
    """Already done by an earlier part of the same run."""
    slots: int


@dataclass(frozen=True, slots=True)
class EndpointSaid:
    """A line about an endpoint."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """An attempt went on to its next phase."""

    trial: str
    attempt: int
    phase: str


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An attempt has its result; `final` where no other follows."""

    trial: str
    result: Result
    final: bool


@dataclass(frozen=True, slots=True)
class DevicesBusy:
    """Device-hours of all endpoints so far, by kind of device."""

    gpu_hours: float
    cpu_hours: float


Happening = RunBegan | EndpointSaid | PhaseBegan | AttemptEnded | DevicesBusy


class Observer(Protocol):
    """Somebody who looks on."""

    def see(self, happening: Happening) -> None:
        """Take note; must be quick."""
        ...


@dataclass(frozen=True, slots=True)
class Observers:
    """Everybody who looks on; none of them can stop a run."""

    everybody: Sequence[Observer]

    def see(self, happening: Happening) -> None:
        """Tell all."""
        for observer in self.everybody:
            try:
                observer.see(happening)
            except Exception:  # noqa: BLE001  # a broken display must not cost a measurement
                _log.warning("an observer failed on %r", happening, exc_info=True)
