"""The gateway: the one address that every model call of every attempt goes through."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import anyio
from aiohttp import web

from rackbench.gateway.journal import open_journal
from rackbench.gateway.line import Access, Budget, Line
from rackbench.gateway.policy import Policy
from rackbench.gateway.relay import (
    CHAT_PATH,
    MODELS_PATH,
    RefusedError,
    relay_chat,
    relay_models,
)
from rackbench.gateway.upstream import Upstream

_REQUEST_BYTES = 64 * 1024 * 1024
_CONNECT_SECONDS = 10.0
# Below the five seconds after which vLLM drops an idle connection: a request sent on one that is
# just being dropped would look like a crash of the engine.
_KEEPALIVE_SECONDS = 2.0
_STOP_SECONDS = 5.0

Relay = Callable[[web.Request, Line, aiohttp.ClientSession], Awaitable[web.StreamResponse]]


class Gateway:
    """A listening gateway; lines are opened on it, one per attempt."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self.root_url = ""
        """http://host:port, without a path."""
        self._client = client
        self._lines: dict[str, Line] = {}
        self._closed: set[str] = set()

    @contextmanager
    def line(
        self,
        upstream: Upstream,
        policy: Policy,
        calls_path: Path,
        *,
        max_steps: int | None = None,
        max_tokens: int | None = None,
    ) -> Iterator[Line]:
        """An attempt's own address; when the context ends it is gone, and its calls are cancelled.

        Every call is a line of `calls_path`. Raises OSError where that file could not be written.
        """
        token = secrets.token_urlsafe(24)
        access = Access(f"{self.root_url}/{token}/v1", secrets.token_urlsafe(24))
        budget = Budget(max_steps=max_steps, max_tokens=max_tokens)
        with open_journal(calls_path) as journal:
            line = Line(upstream, policy, access=access, budget=budget, journal=journal)
            self._lines[token] = line
            try:
                yield line
            finally:
                del self._lines[token]
                self._closed.add(token)
                line.close()

    def application(self) -> web.Application:
        """What is served at which path."""
        app = web.Application(client_max_size=_REQUEST_BYTES)
        app.router.add_post(f"/{{token}}/v1{CHAT_PATH}", self._chat)
        app.router.add_get(f"/{{token}}/v1{MODELS_PATH}", self._models, allow_head=False)
        app.router.add_route("*", "/{token:[^/]*}{rest:.*}", self._unknown)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._on_line(request, relay_chat)

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return await self._on_line(request, relay_models)

    async def _unknown(self, request: web.Request) -> web.StreamResponse:
        return await self._on_line(request, _refuse_path)

    async def _on_line(self, request: web.Request, relay: Relay) -> web.StreamResponse:
        try:
            return await relay(request, self._line_of(request), self._client)
        except RefusedError as refused:
            return refused.response()

    def _line_of(self, request: web.Request) -> Line:
        token = request.match_info["token"]
        line = self._lines.get(token)
        if line is None:
            if token in self._closed:
                raise RefusedError(410, "attempt_over", "the attempt of this address is over")
            raise RefusedError(404, "not_found", "no attempt has this address")
        if not line.opens_for(_key(request)):
            raise RefusedError(401, "invalid_api_key", "the key is not the one of this attempt")
        return line


@asynccontextmanager
async def open_gateway(
    *, host: str = "127.0.0.1", port: int = 0, idle_seconds: float = 900.0
) -> AsyncIterator[Gateway]:
    """Listen until the context ends; port 0 takes any free one.

    A call has no total limit; it fails when its engine sends nothing for `idle_seconds`.
    """
    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds
    )
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),  # attempts share nothing
        auto_decompress=False,
        timeout=timeout,
    ) as client:
        gateway = Gateway(client)
        runner = web.AppRunner(
            gateway.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            bound = runner.addresses[0]
            gateway.root_url = f"http://{bound[0]}:{bound[1]}"
            yield gateway
        finally:
            with anyio.move_on_after(_STOP_SECONDS, shield=True):
                await runner.cleanup()


async def _refuse_path(
    request: web.Request, line: Line, _client: aiohttp.ClientSession
) -> web.StreamResponse:
    """Agents look for more than they need: answered, counted, and no call."""
    line.probes += 1
    raise RefusedError(
        404,
        "not_found",
        f"{request.method} {request.match_info['rest'][:200]} is not served; served are "
        f"POST /v1{CHAT_PATH} and GET /v1{MODELS_PATH}",
    )


def _key(request: web.Request) -> str:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
