"""HTTP/1.1 forward proxying on one connection: tunnels and plain requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import SocketStream, TaskGroup

Dial = Callable[[str, int], Awaitable[SocketStream]]

_GONE = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)
_HEAD_BYTES = 32 * 1024
_HEAD_SECONDS = 60.0
_CHUNK_BYTES = 64 * 1024
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1024 * 1024
_OF_ONE_HOP = frozenset(
    (
        b"connection",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)


class RefusedError(Exception):
    """A request that is answered by the proxy itself."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class _Target(NamedTuple):
    host: str
    port: int
    path: str
    authority: bytes


class _Peer:
    """One side of the conversation: its stream, and where it stands in the protocol."""

    def __init__(self, role: type[h11.CLIENT | h11.SERVER], stream: SocketStream) -> None:
        self.stream = stream
        self.wire = h11.Connection(role, max_incomplete_event_size=_HEAD_BYTES)

    async def next(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self.wire.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            try:
                received = await self.stream.receive(_CHUNK_BYTES)
            except anyio.EndOfStream:
                received = b""
            self.wire.receive_data(received)

    async def send(self, event: h11.Event) -> None:
        octets = self.wire.send(event)
        if octets:
            await self.stream.send(octets)


class _Patience:
    """Ends a conversation in which nothing moves."""

    def __init__(self, scope: anyio.CancelScope, idle_seconds: float) -> None:
        self._scope = scope
        self._idle_seconds = idle_seconds

    def renew(self, seconds: float | None = None) -> None:
        self._scope.deadline = anyio.current_time() + (seconds or self._idle_seconds)


async def converse(stream: SocketStream, dial: Dial, *, idle_seconds: float) -> None:
    """Serve one client until it leaves, breaks the protocol, or nothing moves for too long.

    `dial` connects to a host and port, or raises RefusedError.
    """
    async with stream:
        with anyio.CancelScope() as scope:
            client, patience = _Peer(h11.SERVER, stream), _Patience(scope, idle_seconds)
            with suppress(*_GONE):
                while await _serve_one(client, dial, patience):
                    client.wire.start_next_cycle()


async def _serve_one(client: _Peer, dial: Dial, patience: _Patience) -> bool:
    """Serve a request; True if another may follow on this connection."""
    patience.renew(_HEAD_SECONDS)
    is_head = False
    try:
        request = await client.next()
        if not isinstance(request, h11.Request):
            return False
        is_head = request.method == b"HEAD"
        if request.method == b"CONNECT":
            await _tunnel(client, request, dial, patience)
        else:
            await _forward(client, request, dial, patience)
    except h11.RemoteProtocolError as error:
        await _answer(client, RefusedError(error.error_status_hint, f"{error}"), is_head=is_head)
        return False
    except RefusedError as refused:
        await _answer(client, refused, is_head=is_head)
        return False
    return client.wire.our_state is h11.DONE and client.wire.their_state is h11.DONE


async def _answer(client: _Peer, refused: RefusedError, *, is_head: bool) -> None:
    """Say why not, and leave in a way that the client gets to read it."""
    if client.wire.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    body = f"rackbench: {refused.text}\n".encode()
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    await client.send(h11.Response(status_code=refused.status, headers=headers))
    if not is_head:
        await client.send(h11.Data(data=body))
    await client.send(h11.EndOfMessage())
    with anyio.move_on_after(_LINGER_SECONDS):
        await client.stream.send_eof()
        left = _LINGER_BYTES
        async for chunk in client.stream:
            left -= len(chunk)
            if left < 0:
                return


async def _tunnel(client: _Peer, request: h11.Request, dial: Dial, patience: _Patience) -> None:
    host, port = _host_and_port(request.target.decode("ascii"))
    if not isinstance(await client.next(), h11.EndOfMessage):
        raise RefusedError(400, "a CONNECT request has no body")
    upstream = await dial(host, port)
    async with upstream:
        patience.renew()
        await client.send(h11.Response(status_code=200, headers=[], reason=b"Connected"))
        early, _ = client.wire.trailing_data
        async with anyio.create_task_group() as both:
            both.start_soon(_copy, both, client.stream, upstream, early, patience)
            both.start_soon(_copy, both, upstream, client.stream, b"", patience)


async def _copy(
    both: TaskGroup, source: SocketStream, target: SocketStream, first: bytes, patience: _Patience
) -> None:
    """Copy one way until its end, which is passed on while the other way may go on."""
    try:
        if first:
            await target.send(first)
        async for chunk in source:
            patience.renew()
            await target.send(chunk)
            patience.renew()
        await target.send_eof()
    except _GONE:
        both.cancel_scope.cancel()


async def _forward(client: _Peer, request: h11.Request, dial: Dial, patience: _Patience) -> None:
    target = _absolute(request.target.decode("ascii"))
    upstream = await dial(target.host, target.port)
    async with upstream:
        patience.renew()
        server = _Peer(h11.CLIENT, upstream)
        if client.wire.they_are_waiting_for_100_continue:
            await client.send(h11.InformationalResponse(status_code=100, headers=[]))
        await server.send(_rewritten(request, target))
        fault = None
        async with anyio.create_task_group() as beside:
            beside.start_soon(_upload, beside, client, server, patience)
            fault = await _download(client, server, patience)
            # Who answers without reading to the end wants no more of it.
            beside.cancel_scope.cancel()
        if fault:
            raise RefusedError(502, f"{target.host}:{target.port} {fault}")


async def _upload(beside: TaskGroup, client: _Peer, server: _Peer, patience: _Patience) -> None:
    try:
        while isinstance(event := await client.next(), h11.Data):
            patience.renew()
            with suppress(*_GONE):  # its answer, which tells why, may be there to be read
                await server.send(h11.Data(data=event.data))
        if isinstance(event, h11.EndOfMessage):
            with suppress(*_GONE):
                await server.send(h11.EndOfMessage())
            return
    except (*_GONE, h11.RemoteProtocolError):
        pass
    beside.cancel_scope.cancel()


async def _download(client: _Peer, server: _Peer, patience: _Patience) -> str | None:
    """Pass on the answer; what is wrong with it, where the client has seen nothing of it yet."""
    try:
        while not isinstance(event := await server.next(), h11.EndOfMessage):
            patience.renew()
            if isinstance(event, h11.Response):
                await client.send(_response(event))
            elif isinstance(event, h11.Data):
                await client.send(h11.Data(data=event.data))
            elif not isinstance(event, h11.InformationalResponse):
                return "closed the connection without an answer"
        await client.send(h11.EndOfMessage())
    except (*_GONE, h11.RemoteProtocolError) as error:
        return f"broke off its answer: {error}"
    return None


def _response(event: h11.Response) -> h11.Response:
    return h11.Response(
        status_code=event.status_code, headers=_end_to_end(event.headers), reason=event.reason
    )


def _rewritten(request: h11.Request, target: _Target) -> h11.Request:
    """The request as its server is to see it: the host is the one that was checked."""
    headers = [(b"host", target.authority), (b"connection", b"close")]
    fields = _end_to_end(request.headers)
    if any(name == b"transfer-encoding" for name, _ in request.headers):
        fields = [field for field in fields if field[0] != b"content-length"]
        headers.append((b"transfer-encoding", b"chunked"))
    return h11.Request(method=request.method, target=target.path, headers=headers + fields)


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    named = {
        token.strip().lower()
        for name, value in headers
        if name == b"connection"
        for token in value.split(b",")
    }
    return [field for field in headers if field[0] not in _OF_ONE_HOP | named]


def _absolute(target: str) -> _Target:
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise RefusedError(400, f"{target[:300]!r} is no address: {error}") from error
    if parts.scheme != "http" or not parts.netloc:
        raise RefusedError(
            400, "this is a proxy: it takes CONNECT host:port and http://host/path, nothing else"
        )
    authority = parts.netloc.rpartition("@")[2]
    host, port = _host_and_port(authority if _has_port(authority) else f"{authority}:80")
    path = parts._replace(scheme="", netloc="", path=parts.path or "/", fragment="").geturl()
    return _Target(host, port, path, authority.encode("ascii"))


def _has_port(authority: str) -> bool:
    return ":" in authority.rpartition("]")[2]


def _host_and_port(authority: str) -> tuple[str, int]:
    host, _, port = authority.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise RefusedError(400, f"{authority[:300]!r} is not host:port")
    return host, int(port)
