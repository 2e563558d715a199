"""Where attempts are made: everything a run shares between its trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from rackbench.endpoint.serving import Serving
from rackbench.gateway import Gateway
from rackbench.plan import Plan, PlannedArm
from rackbench.progress import Observers
from rackbench.sandbox.docker import DockerSandboxes
from rackbench.sandbox.network_pool import NetworkPool
from rackbench_results.store import RunFolder


@dataclass(frozen=True, slots=True)
class Site:
    """A run in progress."""

    run_id: str
    plan: Plan
    folder: RunFolder
    sandboxes: DockerSandboxes
    gateway: Gateway
    servings: Mapping[str, Serving]
    starts: anyio.CapacityLimiter
    """Containers started at once: more than one per core only adds waiting."""
    networks: NetworkPool
    """Of compose projects."""
    projects: anyio.CapacityLimiter
    """Compose projects at once: each needs up to two networks of the pool."""
    observers: Observers

    def serving_of(self, arm: PlannedArm) -> Serving | None:
        """The endpoint that an arm's harness talks to."""
        return self.servings[arm.endpoint] if arm.endpoint else None
