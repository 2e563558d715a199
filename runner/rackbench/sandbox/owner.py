"""Who made a Docker object: labels that outlive the runner, and the sweep of what it left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

RUN = "rackbench.run"
TRIAL = "rackbench.trial"
ATTEMPT = "rackbench.attempt"
OWNER = "rackbench.owner"


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: float
    """Creation time as the kernel tells it."""
    boot_id: str

    def __str__(self) -> str:
        return f"{self.pid}:{self.started:.2f}:{self.boot_id}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read an owner label; None where it is not one of ours."""
        try:
            pid, started, boot_id = text.split(":")
            return cls(int(pid), float(started), boot_id)
        except ValueError:
            return None

    def is_alive(self) -> bool:
        """Whether this very process still runs on this very boot."""
        if self.boot_id != _boot_id():
            return False
        try:
            created = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True
        return abs(created - self.started) < 0.05


def this_process() -> Owner:
    """The runner itself."""
    return Owner(os.getpid(), psutil.Process().create_time(), _boot_id())


def owner_of(labels: Mapping[str, str] | None) -> Owner | None:
    """The owner that an object's labels name."""
    return Owner.parse((labels or {}).get(OWNER, ""))


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
