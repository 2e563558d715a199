"""The pool of networks, on a real engine."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network

import anyio
import docker
import psutil
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from rackbench.sandbox.container import Container, container
from rackbench.sandbox.creation import ContainerSpec
from rackbench.sandbox.docker import labels_of
from rackbench.sandbox.network_pool import NetworkPool, sweep_networks
from rackbench.sandbox.owner import RUN
from rackbench_harnesses.ports import Command, SandboxError

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

LABELS = labels_of("network-test", "t", 1)
REACH = """
import concurrent.futures, json, socket, sys

def reach(target):
    host, _, port = target.rpartition(":")
    try:
        info = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(info[0], info[1]) as wire:
            wire.settimeout(2)
            wire.connect(info[4])
            return wire.recv(5).decode()
    except OSError:
        return None

with concurrent.futures.ThreadPoolExecutor(50) as pool:
    print(json.dumps(dict(zip(sys.argv[1:], pool.map(reach, sys.argv[1:])))))
"""
GREETER = """
import socket
server = socket.create_server(("0.0.0.0", 9000))
while True:
    server.accept()[0].sendall(b"hello")
"""
DYING = """
import docker, os, sys, anyio
from rackbench.sandbox.docker import labels_of
from rackbench.sandbox.network_pool import NetworkPool

async def main() -> None:
    async with NetworkPool(docker.from_env().api, labels_of("network-test", "t", 1)) as pool:
        async with pool.take(True) as first, pool.take(False) as second:
            print(first, second, flush=True)
            await anyio.sleep(600)

anyio.run(main)
"""


@pytest.fixture(autouse=True)
def nothing_left(docker_api: docker.APIClient) -> Iterator[None]:
    yield
    assert ours(docker_api) == []


def ours(api: docker.APIClient) -> list[str]:
    label = f"{RUN}=network-test"
    return [row["Name"] for row in api.networks(filters={"label": label})]


@asynccontextmanager
async def on_network(api: docker.APIClient, image: str, network: str) -> AsyncIterator[Container]:
    spec = ContainerSpec(image=image, labels=LABELS, cpus=1, memory_bytes=2**28, network=network)
    async with container(api, spec, on_teardown_error=print) as started:
        yield started


@pytest.fixture
def greeter_port() -> Iterator[int]:
    """A service on every address of this host."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"hello")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


async def reach(sandbox: Container, *targets: str) -> dict[str, str | None]:
    patience = {"RES_OPTIONS": "timeout:1 attempts:1"}  # for names that nobody knows
    done = await sandbox.run(Command(["python3", "-c", REACH, *targets], env=patience))
    assert done.exit_code == 0, done.stderr
    found: dict[str, str | None] = json.loads(done.text)
    return found


async def address_of(sandbox: Container) -> str:
    done = await sandbox.run(Command(["hostname", "-i"]))
    return done.text.strip()


def host_addresses() -> set[str]:
    return {
        item.address.partition("%")[0]
        for items in psutil.net_if_addrs().values()
        for item in items
        if item.family in (socket.AF_INET, socket.AF_INET6)
        and item.address not in ("127.0.0.1", "::1")
    }


async def test_a_sealed_network_reaches_its_own_and_nothing_else(
    docker_api: docker.APIClient, base_image: str, greeter_port: int
) -> None:
    async with (
        NetworkPool(docker_api, LABELS) as pool,
        pool.take(True) as mine,
        pool.take(True) as other,
        pool.take(False) as public,
        on_network(docker_api, base_image, mine) as sandbox,
        on_network(docker_api, base_image, mine) as sibling,
        on_network(docker_api, base_image, other) as stranger,
        on_network(docker_api, base_image, public) as outsider,
    ):
        for one in (sibling, stranger, outsider):
            await one.run(Command(["sh", "-c", 'python3 -c "$0" >/dev/null 2>&1 &', GREETER]))
        await anyio.sleep(0.5)
        name = f"{sibling.id[:12]}:9000"
        addresses = [f"{await address_of(one)}:9000" for one in (sibling, stranger, outsider)]
        subnet = docker_api.inspect_network(mine)["IPAM"]["Config"][0]["Subnet"]
        of_host = [
            f"{address}:{greeter_port}"
            for address in sorted({*host_addresses(), str(next(IPv4Network(subnet).hosts()))})
        ]
        of_link = [
            f"{address}%eth0:{greeter_port}"
            for address in host_addresses()
            if address.startswith("fe80:")
        ]
        outside = ["192.0.2.1:443", "8.8.8.8:53", "example.com:443"]
        found = await reach(sandbox, name, *addresses, *of_host, *of_link, *outside)
        assert {target for target, text in found.items() if text} == {name, addresses[0]}
        # The same service is there for who may reach it: the probe itself is no dud.
        seen = await reach(outsider, *of_host)
        assert "hello" in seen.values()
        assert not (await reach(outsider, addresses[0]))[addresses[0]]


async def test_forty_takers_share_eight_networks(docker_api: docker.APIClient) -> None:
    in_use: set[str] = set()
    seen: set[str] = set()
    most = 0
    reports: list[str] = []

    async def use(pool: NetworkPool, number: int) -> None:
        nonlocal most
        async with pool.take(number % 2 == 0) as name:
            assert name not in in_use
            in_use.add(name)
            seen.add(name)
            most = max(most, len(in_use), len(ours(docker_api)))
            await anyio.sleep(0.05)
            in_use.remove(name)

    async with NetworkPool(docker_api, LABELS, size=8, on_teardown_error=reports.append) as pool:
        async with anyio.create_task_group() as takers:
            for number in range(40):
                takers.start_soon(use, pool, number)
        assert most == 8
        assert len(seen) < 40
    assert reports == []


async def test_networks_are_used_again_and_kinds_make_way(docker_api: docker.APIClient) -> None:
    async with NetworkPool(docker_api, LABELS, size=1) as pool:
        async with pool.take(True) as first:
            assert docker_api.inspect_network(first)["Internal"]
        async with pool.take(True) as second:
            assert second == first
        async with pool.take(False) as third:
            assert third != first
            assert not docker_api.inspect_network(third)["Internal"]
            assert ours(docker_api) == [third]


async def test_a_network_that_is_still_occupied_is_not_used_again(
    docker_api: docker.APIClient, base_image: str
) -> None:
    async with NetworkPool(docker_api, LABELS) as pool:
        async with pool.take(True) as first:
            left = on_network(docker_api, base_image, first)
            await left.__aenter__()
        async with pool.take(True) as second:
            assert second != first
        await left.__aexit__(None, None, None)


async def test_a_cancelled_taker_gives_back(docker_api: docker.APIClient) -> None:
    async with NetworkPool(docker_api, LABELS, size=1) as pool:
        for delay in (0.0, 0.02, 0.05, 0.1, 0.3):
            with anyio.move_on_after(delay):
                async with pool.take(True):
                    await anyio.sleep(60)
        with anyio.fail_after(30):
            async with pool.take(True):
                assert len(ours(docker_api)) == 1


async def test_two_pools_never_share_a_subnet(docker_api: docker.APIClient) -> None:
    subnets: list[str] = []
    base = [IPv4Network("198.18.240.0/24")]
    all_there = anyio.Event()

    async def use(pool: NetworkPool) -> None:
        async with pool.take(True) as name:
            subnets.append(docker_api.inspect_network(name)["IPAM"]["Config"][0]["Subnet"])
            if len(subnets) == 12:
                all_there.set()
            await all_there.wait()

    async with (
        NetworkPool(docker_api, LABELS, bases=base) as one,
        NetworkPool(docker_api, LABELS, bases=base) as two,
        NetworkPool(docker_api, LABELS, bases=base) as three,
        anyio.create_task_group() as takers,
    ):
        for _ in range(4):
            for pool in (one, two, three):
                takers.start_soon(use, pool)
    assert len(set(subnets)) == 12
    assert all(IPv4Network(subnet).subnet_of(base[0]) for subnet in subnets)


async def test_subnets_in_use_are_passed_over(docker_api: docker.APIClient) -> None:
    network = next(
        IPv4Network((item.address, item.netmask), strict=False)
        for items in psutil.net_if_addrs().values()
        for item in items
        if item.family == socket.AF_INET and not item.address.startswith("127.")
    )
    async with NetworkPool(docker_api, LABELS, bases=[network]) as pool:
        with pytest.raises(SandboxError, match=f"every /28 in {network} overlaps"):
            async with pool.take(True):
                pass
    narrow = [IPv4Network("198.18.250.0/28")]
    async with NetworkPool(docker_api, LABELS, bases=narrow) as pool, pool.take(True):
        with pytest.raises(SandboxError, match="docker network ls"):
            async with pool.take(False):
                pass


async def test_networks_of_a_dead_runner_are_swept(
    docker_api: docker.APIClient, base_image: str
) -> None:
    async with NetworkPool(docker_api, LABELS) as pool, pool.take(True) as living:
        runner = await anyio.open_process([sys.executable, "-c", DYING], stderr=None)
        assert runner.stdout
        output = BufferedByteReceiveStream(runner.stdout)
        names = (await output.receive_until(b"\n", 1000)).decode().split()
        assert sweep_networks(docker_api, run_id="network-test") == []
        async with on_network(docker_api, base_image, names[0]):
            os.kill(runner.pid, signal.SIGKILL)
            await runner.wait()
            await runner.aclose()
            assert sorted(sweep_networks(docker_api, run_id="network-test")) == sorted(names)
        assert ours(docker_api) == [living]
