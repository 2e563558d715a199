"""What a sandbox may reach, phase by phase."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rackbench.sandbox.container import Container
from rackbench.sandbox.egress import egress
from rackbench_tasks import Environment, Network, NetworkMode, Stage, Task

SEALED = Network(NetworkMode.NO_NETWORK)
BRIDGE = "bridge"
"""The engine's own network, which leads to the world."""


def permitted(declared: Network, *, policy: str) -> Network:
    """What a task declares, or less: the stricter of task and run wins."""
    return SEALED if policy == "sealed" else declared


def agent_network(task: Task, stage: Stage) -> Network:
    """As the agent phase of a stage declares, else its environment."""
    return stage.agent.network or task.environment.network


def verifier_network(task: Task, stage: Stage) -> Network:
    """As the verifier phase of a stage declares, else the environment that it runs in."""
    verifier = stage.verifier
    environment: Environment = task.environment
    if verifier.separate and verifier.environment:
        environment = verifier.environment
    return verifier.network or environment.network


def shared_networks(task: Task) -> Sequence[Network]:
    """Every network that phases in the agent's own sandbox have."""
    found = [task.environment.network]
    for stage in task.stages:
        found.append(agent_network(task, stage))
        if not stage.verifier.separate:
            found.append(verifier_network(task, stage))
    return found


def leads_out(networks: Sequence[Network], *, policy: str) -> bool:
    """Whether one of the phases may reach the world freely."""
    return any(permitted(each, policy=policy).mode is NetworkMode.PUBLIC for each in networks)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What lies around a container."""

    public: str | None = None
    """The engine's network that leads out of it; None: none does."""
    neighbours: tuple[str, ...] = ()
    """Names of other services of its project."""


@asynccontextmanager
async def reach(
    container: Container,
    network: Network,
    around: Surroundings,
    *,
    note: Callable[[str], None],
) -> AsyncIterator[None]:
    """For the length of a phase, let a sandbox reach what it may and nothing more.

    Connections that an allow-list refused are noted. Raises SandboxError.
    """
    public = around.public
    if public and network.mode is NetworkMode.PUBLIC and public not in container.networks:
        await container.join(public)
    elif public and network.mode is not NetworkMode.PUBLIC and public in container.networks:
        await container.leave(public)
    if network.mode is not NetworkMode.ALLOWLIST:
        yield
        return
    async with egress(
        container.pid, network.allowed_hosts, direct_hosts=around.neighbours
    ) as proxy:
        container.phase_env = proxy.env
        try:
            yield
        finally:
            container.phase_env = {}
            for place, count in sorted(proxy.refused.items()):
                note(f"refused by the allow-list: {count} times {place}")
