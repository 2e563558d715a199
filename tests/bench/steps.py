"""Seconds of one tool step through our sandbox, against the engine API's own exec. Interleaved."""

from __future__ import annotations

import statistics
import time

import anyio
import docker

from rackbench.sandbox.container import container
from rackbench.sandbox.creation import ContainerSpec
from rackbench_harnesses.loop_shell import Shell

_ROUNDS = 30


async def measure_steps(image: str) -> dict[str, float]:
    """Medians in seconds, and their ratio."""
    client = docker.from_env()
    spec = ContainerSpec(image=image, labels={"rackbench.bench": "1"}, cpus=1, memory_bytes=2**29)
    ours, theirs = [], []
    async with container(client.api, spec, on_teardown_error=print) as sandbox:
        shell = Shell(sandbox, interpreter="bash", command_seconds=60, observation_bytes=10_000)

        def by_hand() -> float:
            began = time.perf_counter()
            created = client.api.exec_create(sandbox.id, ["bash", "-c", "echo hello"])
            client.api.exec_start(created["Id"])
            client.api.exec_inspect(created["Id"])
            return time.perf_counter() - began

        for _ in range(_ROUNDS):
            began = time.perf_counter()
            await shell.run("echo hello", name="bench")
            ours.append(time.perf_counter() - began)
            theirs.append(await anyio.to_thread.run_sync(by_hand))
    client.close()
    step, own = statistics.median(ours), statistics.median(theirs)
    return {"tool_step_seconds": step, "engine_exec_seconds": own, "ratio": step / own}
