"""The way out of a sealed sandbox: to the hosts on a task's list, and to no others."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from anyio.abc import SocketListener, SocketStream

from rackbench.sandbox.allow_list import (
    Address,
    AllowList,
    address_of,
    normal_name,
    parse_allow_list,
    plain,
)
from rackbench.sandbox.namespace import listen_inside
from rackbench.sandbox.proxy import RefusedError, converse

_CONNECTIONS_AT_ONCE = 64
_IDLE_SECONDS = 300.0
_LOOKUPS_AT_ONCE = 8
_LOOKUP_SECONDS = 15.0
_CONNECT_SECONDS = 15.0
_PAUSE_SECONDS = 0.1
_BETWEEN_CONNECTIONS_SECONDS = 0.005
_TARGETS_TOLD = 200
OTHERS = "others"
"""Counts all targets beyond the first two hundred: a hostile sandbox can invent any number."""
_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Egress:
    """A proxy inside one sandbox's network, and what went through it."""

    port: int
    env: Mapping[str, str]
    """Tells programs in the sandbox of the proxy."""
    allowed: Counter[str] = field(default_factory=Counter)
    """Requests that were let out, by host:port."""
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that the list does not allow, by host:port."""
    failed: Counter[str] = field(default_factory=Counter)
    """Requests that the list allows, to hosts that could not be found or reached."""


@asynccontextmanager
async def egress(
    pid: int, allowed_hosts: Sequence[str], *, direct_hosts: Sequence[str] = ()
) -> AsyncIterator[Egress]:
    """A proxy on the loopback address of the sandbox that a process belongs to.

    `direct_hosts` are reached without it, as a compose project's other services are. When the
    context ends, all its connections do. Raises UsageError for a list that makes no sense, and
    SandboxError where the sandbox cannot be entered.
    """
    allow_list = parse_allow_list(allowed_hosts)
    with listen_inside(pid, 0) as listener:
        port = int(listener.getsockname()[1])
        outlet = Egress(port, _proxy_env(port, direct_hosts))
        # No task group: errors of the body are to come out as they are.
        serving = asyncio.create_task(_serve(listener, _Gate(allow_list, outlet)))
        try:
            yield outlet
        finally:
            serving.cancel()
            with anyio.CancelScope(shield=True), suppress(asyncio.CancelledError):
                await serving


async def _serve(listening: socket.socket, gate: _Gate) -> None:
    listener = await SocketListener.from_socket(listening)
    free = anyio.Semaphore(_CONNECTIONS_AT_ONCE)
    async with listener, anyio.create_task_group() as conversations:
        while True:
            await free.acquire()
            try:
                stream = await listener.accept()
            except OSError:  # no descriptors left: connections of others must end first
                free.release()
                await anyio.sleep(_PAUSE_SECONDS)
                continue
            conversations.start_soon(_converse, stream, gate, free)
            # A flood from one sandbox must not take the runner's time from all the others.
            await anyio.sleep(_BETWEEN_CONNECTIONS_SECONDS)


async def _converse(stream: SocketStream, gate: _Gate, free: anyio.Semaphore) -> None:
    try:
        await converse(stream, gate.dial, idle_seconds=_IDLE_SECONDS)
    finally:
        free.release()


class _Gate:
    """Connects to what the list allows, and keeps count."""

    def __init__(self, allow_list: AllowList, outlet: Egress) -> None:
        self._allow_list = allow_list
        self._outlet = outlet
        self._lookups = anyio.CapacityLimiter(_LOOKUPS_AT_ONCE)

    async def dial(self, host: str, port: int) -> SocketStream:
        """Connect; raises RefusedError with what the client is to be told."""
        address, name = address_of(host), normal_name(host)
        target = f"{name or host}:{port}"
        if address:
            if not self._allow_list.admits_address(address, port):
                raise self._refusal(target, f"{host} is not")
            addresses = [plain(address)]
        elif name and self._allow_list.admits_name(name, port):
            addresses = await self._look_up(name, port)
            closed = [one for one in addresses if not self._allow_list.admits_answer(one, port)]
            if closed:
                # All or none: a name that leads inside by turns is no more to be trusted.
                where = ", ".join(map(str, closed))
                raise self._refusal(target, f"{name} leads to {where}, not public and itself not")
        else:
            raise self._refusal(target, f"{name or host} is not")
        for found in addresses:
            with suppress(OSError, TimeoutError), anyio.fail_after(_CONNECT_SECONDS):
                stream = await anyio.connect_tcp(str(found), port)
                _count(self._outlet.allowed, target)
                return stream
        _count(self._outlet.failed, target)
        tried = ", ".join(map(str, addresses))
        raise RefusedError(502, f"{target} is allowed, but does not answer at {tried}")

    async def _look_up(self, name: str, port: int) -> list[Address]:
        try:
            with anyio.fail_after(_LOOKUP_SECONDS):
                rows = await anyio.to_thread.run_sync(
                    lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM),
                    abandon_on_cancel=True,
                    limiter=self._lookups,
                )
        except (OSError, TimeoutError) as error:
            _count(self._outlet.failed, f"{name}:{port}")
            reason = str(error) or "no answer in time"
            raise RefusedError(502, f"{name} is allowed, but cannot be found: {reason}") from error
        found = [address_of(str(row[4][0])) for row in rows]
        return [plain(address) for address in dict.fromkeys(found) if address]

    def _refusal(self, target: str, reason: str) -> RefusedError:
        _count(self._outlet.refused, target)
        listed = ", ".join(self._allow_list.texts) or "which is empty"
        return RefusedError(403, f"{reason} on the list of allowed hosts ({listed})")


def _count(counts: Counter[str], target: str) -> None:
    counts[target if target in counts or len(counts) < _TARGETS_TOLD else OTHERS] += 1


def _proxy_env(port: int, direct_hosts: Sequence[str]) -> Mapping[str, str]:
    address = f"http://127.0.0.1:{port}"
    upper = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), address)
    upper["NO_PROXY"] = ",".join((*_HERE, *direct_hosts))
    return upper | {name.lower(): value for name, value in upper.items()}
