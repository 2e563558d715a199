"""One request passed on to the engine, and its answer passed back as it comes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from rackbench.gateway.chat import reader_for
from rackbench.gateway.line import Line
from rackbench.gateway.meter import Asked, CallMeter
from rackbench.gateway.policy import apply
from rackbench.gateway.upstream import Upstream

CHAT_PATH = "/chat/completions"
MODELS_PATH = "/models"

# They describe one connection, not what passes over it.
_HOP_HEADERS = ("Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer")
_PASSED_HEADERS = ("Content-Type", "Accept")
# The client library warns about larger bodies given as bytes; a file is sent in parts.
_ONE_PIECE_BYTES = 1024 * 1024


class RefusedError(Exception):
    """An answer of the gateway itself."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def response(self) -> web.Response:
        """In the shape of the API's errors."""
        error = {"message": str(self), "type": self.kind, "param": None, "code": self.status}
        # The clients of this API try a 429 again unless they are told.
        headers = {"x-should-retry": "false"} if self.status == 429 else None
        return web.json_response({"error": error}, status=self.status, headers=headers)


async def relay_chat(
    request: web.Request, line: Line, client: aiohttp.ClientSession
) -> web.StreamResponse:
    """A model call: changed as the policy says, measured, recorded.

    Raises RefusedError where nothing could be passed back.
    """
    meter = line.begin(f"/v1{CHAT_PATH}")
    try:
        body = _prepare(await _read(request), line, meter)
        with line.upstream.in_flight():
            return await _exchange(request, body, line, meter, client=client)
    except RefusedError as refused:
        line.refuse(meter, str(refused), status=refused.status)
        raise
    except ConnectionError:
        return web.Response()  # nobody is there to read it
    finally:
        line.left(meter)  # unless it ended otherwise


async def relay_models(
    request: web.Request, line: Line, client: aiohttp.ClientSession
) -> web.StreamResponse:
    """The list of models, as the engine gives it.

    Raises RefusedError.
    """
    try:
        async with client.get(
            line.upstream.base_url + MODELS_PATH, headers=_headers(request, line.upstream)
        ) as answer:
            content = await answer.read()
            headers = _end_to_end(answer.headers)
            return web.Response(status=answer.status, body=content, headers=headers)
    except (aiohttp.ClientError, OSError) as error:
        raise _unreachable(error) from error


async def _read(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise RefusedError(413, "invalid_request_error", "the request is too large") from error


def _prepare(raw: bytes, line: Line, meter: CallMeter) -> bytes:
    """The body to send; the very bytes that came where the policy changes nothing."""
    meter.request_bytes = len(raw)
    if spent := line.spent():
        raise RefusedError(429, "budget_exhausted", spent)
    try:
        body: Any = json.loads(raw)
        if not isinstance(body, dict):
            raise RefusedError(400, "invalid_request_error", "the body is not a JSON object")
        new, changes = apply(line.policy, body)
        content = json.dumps(new, separators=(",", ":")).encode() if changes else raw
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, "invalid_request_error", f"the body is no JSON: {error}") from error
    meter.asked = Asked(
        model_requested=_name(body.get("model")),
        model_sent=_name(new.get("model")),
        streamed=bool(new.get("stream")),
        policy=changes,
    )
    return content


async def _exchange(
    request: web.Request,
    body: bytes,
    line: Line,
    meter: CallMeter,
    *,
    client: aiohttp.ClientSession,
) -> web.StreamResponse:
    data = body if len(body) <= _ONE_PIECE_BYTES else io.BytesIO(body)
    meter.sent()
    try:
        answer = await client.post(
            line.upstream.base_url + CHAT_PATH,
            data=data,
            headers=_headers(request, line.upstream),
            allow_redirects=False,
        )
    except (aiohttp.ClientError, OSError) as error:
        refused = _unreachable(error)
        line.fail(
            meter, f"{refused}: {line.upstream.base_url}: {_said(error)}", status=refused.status
        )
        raise refused from error
    async with answer:
        meter.answered(answer.status, reader_for(answer.status, answer.headers))
        return await _pass_back(request, answer, line, meter)


async def _pass_back(
    request: web.Request, answer: aiohttp.ClientResponse, line: Line, meter: CallMeter
) -> web.StreamResponse:
    response = web.StreamResponse(
        status=answer.status, reason=answer.reason, headers=_end_to_end(answer.headers)
    )
    await response.prepare(request)
    content = answer.content
    while True:
        try:
            data = await content.readany()
        except (aiohttp.ClientError, OSError) as error:
            line.fail(meter, f"the engine's answer broke off: {_said(error)}")
            if request.transport:
                request.transport.close()  # as the engine did: no proper end
            return response
        if data:
            meter.received(data)
        if not data or meter.reader.is_complete or content.at_eof():
            # Before the last bytes go out: who has read them may ask for the usage at once.
            line.finish(meter)
        if not data:
            return response
        await response.write(data)


def _unreachable(error: Exception) -> RefusedError:
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return RefusedError(504, "endpoint_timeout", "the engine was silent for too long")
    return RefusedError(502, "endpoint_unreachable", "the engine did not answer")


def _headers(request: web.Request, upstream: Upstream) -> dict[str, str]:
    """Only what the engine needs: the rest comes from a sandbox."""
    headers = {name: request.headers[name] for name in _PASSED_HEADERS if name in request.headers}
    headers["Accept-Encoding"] = "identity"
    if upstream.api_key:
        headers["Authorization"] = f"Bearer {upstream.api_key}"
    return headers


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    for name in _HOP_HEADERS:
        kept.popall(name, None)
    return kept


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
