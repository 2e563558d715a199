"""An engine as a local process: launched behind its guard, followed by its log, stopped whole."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import anyio
import anyio.abc

from rackbench.endpoint import guard
from rackbench.endpoint.engine_log import explain, stage_of
from rackbench.endpoint.serving import Report
from rackbench.errors import EndpointError

_GRACE_SECONDS = 10.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.25
# Nothing leaves the building, and nothing is waited for that cannot come.
_OFFLINE = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}


@dataclass(frozen=True, slots=True)
class Launch:
    """What is started, and where it says what."""

    command: Sequence[str]
    """Without host and port."""
    env: Mapping[str, str]
    port: int
    log: Path


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A running engine behind its guard."""

    launch: Launch
    pid: int
    process: anyio.abc.Process

    @property
    def root_url(self) -> str:
        """Without /v1."""
        return f"http://127.0.0.1:{self.launch.port}"

    async def ended(self) -> str:
        """Wait until it ends, which nobody asked for, and say why."""
        code = await self.process.wait()
        return explain(self.launch.log, code)

    async def ready(self, *, limit_seconds: float, report: Report) -> None:
        """Wait until it answers, telling the stages of its start.

        Raises EndpointError with the log's own reason.
        """
        stage = ""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as client:
            with anyio.move_on_after(limit_seconds):
                while not await _healthy(client, f"{self.root_url}/health"):
                    if self.process.returncode is not None:
                        raise EndpointError(explain(self.launch.log, self.process.returncode))
                    if (now := stage_of(self.launch.log)) != stage:
                        stage = now
                        report(stage)
                    await anyio.sleep(_POLL_SECONDS)
                return
        raise EndpointError(
            f"the engine did not answer within {limit_seconds:g} s (last stage: {stage}); "
            f"see {self.launch.log}, or raise start_seconds"
        )


@asynccontextmanager
async def engine_process(launch: Launch) -> AsyncIterator[EngineProcess]:
    """Start an engine; stop it with its whole process group at the end.

    The guard ends it too when this process dies.
    """
    address = ["--host", "127.0.0.1", "--port", str(launch.port)]
    argv = [sys.executable, "-S", guard.__file__, str(_GRACE_SECONDS), *launch.command, *address]
    with launch.log.open("ab") as log:
        process = await anyio.open_process(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **_OFFLINE, **launch.env, "RACKBENCH_ENGINE_LOG": str(launch.log)},
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = await process.stdout.receive()
        yield EngineProcess(launch, int(said.split()[0]), process)
    except anyio.EndOfStream:
        raise EndpointError(explain(launch.log, await process.wait())) from None
    finally:
        with anyio.CancelScope(shield=True):
            await process.stdin.aclose()
            with anyio.move_on_after(_STOP_SECONDS):
                await process.wait()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether nobody listens on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def _healthy(client: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with client.get(url) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
