"""Conversations of the forward proxy, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from rackbench.sandbox.proxy import RefusedError, converse

pytestmark = pytest.mark.anyio

Serve = Callable[[SocketStream], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()


@asynccontextmanager
async def proxied(serve: Serve, *, idle_seconds: float = 20) -> AsyncIterator[SocketStream]:
    """A client of the proxy, behind which every host is the given server."""
    async with listening(serve) as port:

        async def dial(host: str, _port: int) -> SocketStream:
            if host == "closed.example":
                raise RefusedError(403, "closed.example is not on the list")
            return await anyio.connect_tcp("127.0.0.1", port)

        async def talk(stream: SocketStream) -> None:
            await converse(stream, dial, idle_seconds=idle_seconds)

        async with listening(talk) as proxy, await anyio.connect_tcp("127.0.0.1", proxy) as client:
            with anyio.fail_after(20):
                yield client


async def all_of(stream: SocketStream) -> bytes:
    return b"".join([chunk async for chunk in stream])


async def until(stream: SocketStream, mark: bytes) -> bytes:
    seen = b""
    while mark not in seen:
        seen += await stream.receive()
    return seen


def answering(answer: bytes, seen: list[bytes], *, after: bytes = b"\r\n\r\n") -> Serve:
    async def serve(stream: SocketStream) -> None:
        async with stream:
            seen.append(await until(stream, after))
            await stream.send(answer)

    return serve


async def echo(stream: SocketStream) -> None:
    """Says hello, then all that it got, once its client has ended."""
    async with stream:
        await stream.send(b"hello\n")
        got = await all_of(stream)
        await stream.send(got)


CONNECT = b"CONNECT open.example:443 HTTP/1.1\r\nHost: open.example:443\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_tunnel_carries_half_closed_streams() -> None:
    big = bytes(range(256)) * 20_000
    async with proxied(echo) as client:
        await client.send(CONNECT + b"early ")  # does not wait for the answer
        head = await until(client, b"hello\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        await client.send(big)
        await client.send_eof()
        assert await all_of(client) == b"early " + big


async def test_a_tunnel_ends_when_nothing_moves() -> None:
    async with proxied(echo, idle_seconds=0.3) as client:
        await client.send(CONNECT)
        assert (await all_of(client)).endswith(b"hello\n")


async def test_requests_are_rewritten_and_connections_kept() -> None:
    seen: list[bytes] = []
    async with proxied(answering(OK, seen)) as client:
        for number in range(3):
            await client.send(
                b"GET http://open.example/a?b=%d HTTP/1.1\r\nHost: other.example\r\n"
                b"Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\n"
                b"Connection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\n" % number
            )
            assert (await until(client, b"\r\n\r\nok")).startswith(b"HTTP/1.1 200 OK\r\n")
    assert [text.splitlines()[0] for text in seen] == [
        b"GET /a?b=%d HTTP/1.1" % number for number in range(3)
    ]
    lower = seen[0].lower()
    assert b"host: open.example\r\n" in lower
    assert b"x-end: 2" in lower
    for absent in (b"other.example", b"x-hop", b"proxy-"):
        assert absent not in lower


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with proxied(answering(OK, [])) as client:
        await client.send(b"GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n" * 3)
        seen = b""
        while seen.count(b"\r\n\r\nok") < 3:
            seen += await client.receive()


async def test_a_chunked_body_goes_up_and_down() -> None:
    seen: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with proxied(answering(answer, seen, after=b"0\r\n\r\n")) as client:
        await client.send(
            b"POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nExpect: 100-continue\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        assert (await until(client, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await client.send(b"4\r\nbody\r\n0\r\n\r\n")
        assert b"abc" in await until(client, b"0\r\n\r\n")
    assert b"4\r\nbody\r\n0\r\n\r\n" in seen[0]


async def test_an_answer_that_ends_with_its_connection() -> None:
    async with proxied(answering(b"HTTP/1.0 200 OK\r\n\r\nall of it", [])) as client:
        await client.send(b"GET http://open.example/ HTTP/1.0\r\n\r\n")
        assert (await all_of(client)).endswith(b"\r\n\r\nall of it")


async def test_an_early_answer_ends_an_upload() -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    async with proxied(answering(answer, [])) as client:
        await client.send(
            b"POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\n"
            b"Content-Length: 1000000\r\n\r\nonly a part"
        )
        assert (await all_of(client)).startswith(b"HTTP/1.1 413 ")


async def test_an_answer_cut_short_is_cut_short_for_the_client() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"
    async with proxied(answering(answer, [])) as client:
        await client.send(b"GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n")
        assert (await all_of(client)).endswith(b"\r\n\r\nshort")


@pytest.mark.parametrize(
    ("request_bytes", "status", "words"),
    [
        (b"CONNECT closed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", 403, b"closed.example is not"),
        (b"GET http://closed.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 403, b"closed.example is not"),
        (b"HEAD http://closed.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 403, b""),
        (b"GET / HTTP/1.1\r\nHost: closed.example\r\n\r\n", 400, b"this is a proxy"),
        (b"GET https://open.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, b"this is a proxy"),
        (b"CONNECT open.example HTTP/1.1\r\nHost: x\r\n\r\n", 400, b"not host:port"),
        (b"CONNECT open.example:99999 HTTP/1.1\r\nHost: x\r\n\r\n", 400, b"not host:port"),
        (b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, b"no address"),
        (b"GET http://open.example/ HTTP/1.1\r\n\r\n", 400, b"Host"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, b""),
        (b"GET http://open.example/ HTTP/1.1\r\nX: " + b"x" * 70_000, 431, b""),
    ],
)
async def test_refusals_say_why(request_bytes: bytes, status: int, words: bytes) -> None:
    async with proxied(echo) as client:
        await client.send(request_bytes)
        answer = await all_of(client)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert words in answer.partition(b"\r\n\r\n")[2]


async def test_a_server_that_says_nothing_is_a_bad_gateway() -> None:
    async def silent(stream: SocketStream) -> None:
        await until(stream, b"\r\n\r\n")
        await stream.aclose()

    async with proxied(silent) as client:
        await client.send(b"GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n")
        assert (await all_of(client)).startswith(b"HTTP/1.1 502 ")


async def test_a_client_that_vanishes_frees_the_server() -> None:
    gone = anyio.Event()

    async def wait(stream: SocketStream) -> None:
        async with stream:
            await all_of(stream)
        gone.set()

    async with proxied(wait) as client:
        await client.send(CONNECT)
        await until(client, b"\r\n\r\n")
        await client.aclose()
        await gone.wait()
