"""A sealed sandbox reaches what its list allows, by the proxy alone."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

import anyio
import docker
import psutil
import pytest

from rackbench.errors import UsageError
from rackbench.sandbox.container import Container, container
from rackbench.sandbox.creation import ContainerSpec
from rackbench.sandbox.egress import OTHERS, Egress, egress
from rackbench.sandbox.namespace import listen_inside
from rackbench_harnesses.ports import Command, SandboxError

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

# Each URL on its own, proxies as the environment says; names of this machine go through them too.
CLIENT = """
import json, sys, urllib.error, urllib.request
found = []
for url in sys.argv[1:]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            found.append([answer.status, answer.read().decode()])
    except urllib.error.HTTPError as error:
        found.append([error.code, error.read().decode()])
    except OSError as error:
        found.append([0, str(error)])
print(json.dumps(found))
"""
RAW = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as wire:
    wire.sendall(sys.stdin.buffer.read())
    wire.shutdown(socket.SHUT_WR)
    while chunk := wire.recv(65536):
        sys.stdout.buffer.write(chunk)
"""


class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = f"hello at {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server_port() -> Iterator[int]:
    """Of a server on every address of this host."""
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Hello)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def host_address() -> str:
    """One of this host's own, other than loopback."""
    return next(
        item.address
        for items in psutil.net_if_addrs().values()
        for item in items
        if item.family == socket.AF_INET and not item.address.startswith("127.")
    )


@pytest.fixture
async def sandbox(docker_api: docker.APIClient, base_image: str) -> AsyncIterator[Container]:
    spec = ContainerSpec(
        image=base_image, labels={"rackbench.test": "1"}, cpus=1, memory_bytes=2**28
    )
    async with container(docker_api, spec, on_teardown_error=print) as started:
        yield started


async def fetch(sandbox: Container, outlet: Egress | None, *urls: str) -> list[tuple[int, str]]:
    env = dict(outlet.env) if outlet else {}
    done = await sandbox.run(Command(["python3", "-c", CLIENT, *urls], env=env))
    assert done.exit_code == 0, done.stderr
    return [(status, text) for status, text in json.loads(done.text)]


async def speak(sandbox: Container, outlet: Egress, text: bytes) -> bytes:
    done = await sandbox.run(Command(["python3", "-c", RAW, str(outlet.port)], stdin=text))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def connect_request(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()


async def test_only_what_is_listed_is_reached(
    sandbox: Container, server_port: int, host_address: str
) -> None:
    good = f"http://{host_address}:{server_port}/"
    elsewhere = ["http://203.0.113.7/", "http://example.com/", "https://example.com/"]
    async with egress(sandbox.pid, [f"{host_address}/32"]) as outlet:
        reached, *others = await fetch(sandbox, outlet, good, *elsewhere)
        assert reached == (200, f"hello at {host_address}:{server_port}")
        assert others[0] == (
            403,
            f"rackbench: 203.0.113.7 is not on the list of allowed hosts ({host_address}/32)\n",
        )
        assert others[1][0] == 403
        assert "403" in others[2][1]  # a tunnel that was refused
        target = f"{host_address}:{server_port}"
        tunnelled = connect_request(target) + b"GET / HTTP/1.0\r\nHost: inner\r\n\r\n"
        assert (await speak(sandbox, outlet, tunnelled)).endswith(b"hello at inner")
        assert dict(outlet.allowed) == {target: 2}
        assert dict(outlet.refused) == {
            "203.0.113.7:80": 1,
            "example.com:80": 1,
            "example.com:443": 1,
        }
        direct = await fetch(sandbox, None, good, *elsewhere)
        assert [status for status, _ in direct] == [0] * 4
    assert [status for status, _ in await fetch(sandbox, outlet, good)] == [0]


@pytest.mark.parametrize("listed", [[], ["example.com", "*.example.net"], ["0.0.0.0/0", "::/0"]])
async def test_this_host_is_closed_unless_it_is_listed_itself(
    sandbox: Container, server_port: int, host_address: str, listed: Sequence[str]
) -> None:
    spellings = [
        host_address,
        "127.0.0.1",
        f"[::ffff:{host_address}]",
        "[::1]",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "localhost",
        "169.254.169.254",
    ]
    async with egress(sandbox.pid, listed) as outlet:
        for spelling in spellings:
            answer = await speak(sandbox, outlet, connect_request(f"{spelling}:{server_port}"))
            assert answer.startswith(b"HTTP/1.1 403 "), spelling
        assert outlet.refused.total() == len(spellings)
        assert not outlet.allowed


async def test_a_name_that_leads_inside_is_refused(sandbox: Container, server_port: int) -> None:
    target = f"localhost:{server_port}"
    asked = connect_request(target.upper()) + b"GET / HTTP/1.0\r\nHost: inner\r\n\r\n"
    async with egress(sandbox.pid, ["localhost"]) as outlet:
        answer = await speak(sandbox, outlet, asked)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"localhost leads to" in answer
        assert dict(outlet.refused) == {target: 1}
    async with egress(sandbox.pid, ["localhost", "127.0.0.0/8", "::1"]) as outlet:
        assert (await speak(sandbox, outlet, asked)).endswith(b"hello at inner")
        assert dict(outlet.allowed) == {target: 1}


async def test_what_is_allowed_and_not_there_is_told_apart(
    sandbox: Container, host_address: str
) -> None:
    with socket.socket() as taken:
        taken.bind((host_address, 0))  # and does not listen
        port = taken.getsockname()[1]
        async with egress(sandbox.pid, [host_address, "absent.invalid"]) as outlet:
            for target in (f"{host_address}:{port}", "absent.invalid:443"):
                answer = await speak(sandbox, outlet, connect_request(target))
                assert answer.startswith(b"HTTP/1.1 502 ")
            assert dict(outlet.failed) == {f"{host_address}:{port}": 1, "absent.invalid:443": 1}
            assert not outlet.allowed
            assert not outlet.refused


async def test_counts_are_bounded(sandbox: Container) -> None:
    flood = (
        "import socket, sys\n"
        "for number in range(250):\n"
        "    with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as wire:\n"
        "        wire.sendall(b'HEAD http://h%d.example/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' % number)\n"
        "        wire.recv(10)\n"
    )
    async with egress(sandbox.pid, []) as outlet:
        done = await sandbox.run(Command(["python3", "-c", flood, str(outlet.port)]))
        assert done.exit_code == 0, done.stderr
        assert (len(outlet.refused), outlet.refused[OTHERS]) == (201, 50)


async def test_connections_at_once_are_bounded_and_end_with_the_context(
    sandbox: Container,
) -> None:
    hold = (
        "import socket, sys, time\n"
        "held = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(100)]\n"
        "print('held', flush=True)\n"
        "while any(wire.recv(1) for wire in held[:64]): pass\n"
        "print('ended')\n"
    )
    own = psutil.Process(os.getpid())
    before = own.num_fds()
    done: list[bytes] = []

    async def run(port: int) -> None:
        result = await sandbox.run(Command(["python3", "-c", hold, str(port)]))
        done.append(result.stdout)

    async with anyio.create_task_group() as beside, egress(sandbox.pid, []) as outlet:
        beside.start_soon(run, outlet.port)
        while own.num_fds() < before + 64:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        await anyio.sleep(0.3)
        assert own.num_fds() < before + 75
    assert done == [b"held\nended\n"]


async def test_an_error_of_the_body_comes_out_as_it_is(sandbox: Container) -> None:
    with pytest.raises(KeyError):
        async with egress(sandbox.pid, ["example.com"]):
            raise KeyError
    with anyio.move_on_after(0.2) as scope:
        async with egress(sandbox.pid, ["example.com"]):
            await anyio.sleep(60)
    assert scope.cancelled_caught


async def test_a_list_that_makes_no_sense_is_refused(sandbox: Container) -> None:
    with pytest.raises(UsageError, match="'https://x'"):
        async with egress(sandbox.pid, ["https://x"]):
            pass


async def test_programs_are_told_of_the_proxy(sandbox: Container) -> None:
    async with egress(sandbox.pid, [], direct_hosts=["db"]) as outlet:
        address = f"http://127.0.0.1:{outlet.port}"
        assert outlet.env["https_proxy"] == outlet.env["HTTPS_PROXY"] == address
        assert outlet.env["no_proxy"] == outlet.env["NO_PROXY"] == "localhost,127.0.0.1,::1,db"


async def test_a_listener_belongs_to_its_sandbox_alone(sandbox: Container) -> None:
    listener = listen_inside(sandbox.pid, 8123)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"greeting")
        writer.close()

    async with await asyncio.start_server(greet, sock=listener):
        script = "import socket; print(socket.create_connection(('127.0.0.1', 8123)).recv(99))"
        done = await sandbox.run(Command(["python3", "-c", script]))
        assert done.text == "b'greeting'\n"
        with socket.socket() as outside:
            assert outside.connect_ex(("127.0.0.1", 8123)) != 0
        with pytest.raises(SandboxError, match=r"8123 inside .*in use"):
            listen_inside(sandbox.pid, 8123)
    with socket.socket() as unmoved:  # the network of this process is still the host's
        unmoved.bind(("127.0.0.1", 8123))


async def test_places_that_cannot_be_entered_are_named() -> None:
    with pytest.raises(SandboxError, match="no network of its own"):
        listen_inside(os.getpid(), 0)
    with pytest.raises(SandboxError, match="No such file"):
        listen_inside(2**22 + 1, 0)
