"""Networks of an engine for sandboxes that need one: few, small, used again and again."""

from __future__ import annotations

import logging
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread
import docker
import docker.errors
from docker.types import IPAMConfig, IPAMPool

from rackbench.sandbox import owner
from rackbench.sandbox.engine import explained
from rackbench_harnesses.ports import SandboxError

T = TypeVar("T")

# The first is set apart for benchmarks (RFC 2544), so that no site has addresses of its own there.
BASES = tuple(
    map(IPv4Network, ("198.18.0.0/16", "10.201.0.0/16", "10.93.0.0/16", "192.168.240.0/20"))
)
_PREFIX_BITS = 28
"""Thirteen containers to a network."""
_TEARDOWN_SECONDS = 60.0
_ROUTE_UP, _ROUTE_REJECT = 0x1, 0x200
_NO_HOST_ADDRESS = "com.docker.network.bridge.inhibit_ipv4"
_MTU = "com.docker.network.driver.mtu"

_log = logging.getLogger(__name__)


class NetworkPool:
    """At most `size` networks, made when first asked for, removed when the context ends.

    A sealed one connects its containers with each other and with nothing else: neither the host
    nor the world has an address on it. The others lead to the world, as Docker's own bridge does.
    """

    def __init__(
        self,
        api: docker.APIClient,
        labels: Mapping[str, str],
        *,
        size: int = 24,
        bases: Sequence[IPv4Network] = BASES,
        on_teardown_error: Callable[[str], None] = _log.warning,
    ) -> None:
        self._api = api
        self._labels = dict(labels)
        self._bases = tuple(bases)
        self._on_teardown_error = on_teardown_error
        self._size = size
        self._vacancies = anyio.Semaphore(size)
        self._making = anyio.Lock()
        self._names: set[str] = set()
        self._idle: dict[bool, list[str]] = {True: [], False: []}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as removals:
                for name in sorted(self._names):
                    removals.start_soon(self._discard, name)

    @asynccontextmanager
    async def take(self, sealed: bool) -> AsyncIterator[str]:
        """The name of a network that nobody else uses meanwhile; waits while all are in use.

        Raises SandboxError where the engine makes none.
        """
        async with self._vacancies:
            with anyio.CancelScope(shield=True):
                name = await self._find(sealed)
            try:
                yield name
            finally:
                with anyio.CancelScope(shield=True):
                    await self._return(name, sealed)

    async def _find(self, sealed: bool) -> str:
        # One at a time: who is second finds the subnets that the first one took.
        async with self._making:
            if self._idle[sealed]:
                return self._idle[sealed].pop()
            if len(self._names) >= self._size and self._idle[not sealed]:
                await self._discard(self._idle[not sealed].pop())
            name = await anyio.to_thread.run_sync(
                lambda: _create(self._api, self._labels, sealed=sealed, bases=self._bases)
            )
            self._names.add(name)
            return name

    async def _return(self, name: str, sealed: bool) -> None:
        """Keep a network for its next user, unless somebody is still on it."""
        members = await self._reported(
            f"looking at network {name}", lambda: _members(self._api, name)
        )
        if members is not None and not members:
            self._idle[sealed].append(name)
        else:
            await self._discard(name)

    async def _discard(self, name: str) -> None:
        self._names.discard(name)
        await self._reported(f"removing network {name}", lambda: _remove(self._api, name))

    async def _reported(self, doing: str, call: Callable[[], T]) -> T | None:
        """What the call gives; what goes wrong is told, and never hides what came before it."""
        try:
            with anyio.fail_after(_TEARDOWN_SECONDS), explained(doing):
                return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        except (SandboxError, TimeoutError) as error:
            self._on_teardown_error(str(error) or f"{doing} took too long")
            return None


def sweep_networks(api: docker.APIClient, *, run_id: str | None = None) -> list[str]:
    """Remove networks whose runner is dead; those of a live one are never touched.

    Returns their names. Raises SandboxError where the engine does not remove one.
    """
    label = f"{owner.RUN}={run_id}" if run_id else owner.OWNER
    removed = []
    with explained("removing networks of dead runners"):
        for row in api.networks(filters={"label": label}):
            maker = owner.owner_of(row.get("Labels"))
            if maker and not maker.is_alive():
                _remove(api, row["Id"])
                removed.append(str(row["Name"]))
    return removed


def _create(
    api: docker.APIClient,
    labels: Mapping[str, str],
    *,
    sealed: bool,
    bases: Sequence[IPv4Network],
) -> str:
    name = f"rackbench-{'sealed' if sealed else 'public'}-{secrets.token_hex(6)}"
    doing = "making a network for sandboxes"
    with explained(doing):
        networks = api.networks()
        options = _mtu_option(networks)
        if sealed:
            options[_NO_HOST_ADDRESS] = "true"
        taken = [*_subnets(networks), *_routed_subnets(Path("/proc/net/route").read_text())]
        for subnet in _free(bases, taken):
            try:
                api.create_network(
                    name,
                    driver="bridge",
                    options=options,
                    ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
                    internal=sealed,
                    labels=dict(labels),
                )
            except docker.errors.APIError as error:
                # Another runner, or anybody else, was faster.
                if "overlap" not in str(error.explanation or error).lower():
                    raise
            else:
                return name
    raise SandboxError(
        f"{doing}: every /{_PREFIX_BITS} in {', '.join(map(str, bases))} overlaps a network or a "
        "route of this host; remove networks that nobody needs (`docker network ls`)"
    )


def _free(bases: Sequence[IPv4Network], taken: Sequence[IPv4Network]) -> Iterator[IPv4Network]:
    for base in bases:
        near = [subnet for subnet in taken if subnet.overlaps(base)]
        if any(base.subnet_of(subnet) for subnet in near):
            continue
        for subnet in base.subnets(new_prefix=_PREFIX_BITS):
            if not any(subnet.overlaps(other) for other in near):
                yield subnet


def _mtu_option(networks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The packet size that the engine was set to, which it gives to its own bridge alone."""
    for row in networks:
        if row["Name"] == "bridge" and _MTU in (row.get("Options") or {}):
            return {_MTU: row["Options"][_MTU]}
    return {}


def _subnets(networks: Sequence[Mapping[str, Any]]) -> Iterator[IPv4Network]:
    for row in networks:
        for config in (row.get("IPAM") or {}).get("Config") or []:
            subnet = str(config.get("Subnet") or "")
            if subnet and ":" not in subnet:
                yield IPv4Network(subnet, strict=False)


def _routed_subnets(table: str) -> Iterator[IPv4Network]:
    """What the kernel's table sends to some place of its own; the default route is none."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        target, flags, mask = fields[1], int(fields[3], 16), fields[7]
        if flags & (_ROUTE_UP | _ROUTE_REJECT) and mask != "00000000":
            yield IPv4Network((_dotted(target), _dotted(mask)))


def _dotted(word: str) -> str:
    return socket.inet_ntoa(struct.pack("=I", int(word, 16)))


def _members(api: docker.APIClient, name: str) -> Mapping[str, Any]:
    members: Mapping[str, Any] = api.inspect_network(name).get("Containers") or {}
    return members


def _remove(api: docker.APIClient, name: str) -> None:
    """Remove a network, and from it whoever is still on it."""
    try:
        for container_id in _members(api, name):
            _disconnect(api, container_id, name)
        api.remove_network(name)
    except docker.errors.NotFound:
        return


def _disconnect(api: docker.APIClient, container_id: str, name: str) -> None:
    try:
        api.disconnect_container_from_network(container_id, name, force=True)
    except docker.errors.NotFound:
        return
