"""A server that answers from a script over real HTTP, as the engine would."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web

from rackbench_harnesses.testing.answer import Answer, answer, is_answer, prompt_size
from rackbench_harnesses.testing.script import Conversation, Script, Turn

_REQUEST_BYTES = 256 * 1024 * 1024
_ERROR_TYPES = {400: "BadRequestError", 404: "NotFoundError"}
_STOP_SECONDS = 5.0


class _RefusedError(Exception):
    """An HTTP error in the engine's shape."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        kind = _ERROR_TYPES.get(status, "InternalServerError")
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


class ScriptedServer:
    """A running server."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.base_url = ""
        """Ends in /v1."""
        self.requests: list[dict[str, Any]] = []
        """Bodies of the chat requests seen so far, as they came."""
        self.abandoned = 0
        """Requests whose client left before its answer was complete."""
        self._faults: Counter[tuple[int, int]] = Counter()
        self._stopping = False

    def application(self) -> web.Application:
        """What is served at which path."""
        app = web.Application(client_max_size=_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        return app

    def stop(self) -> None:
        """From now on a client that is cut off did not leave by itself."""
        self._stopping = True

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "scripted"})

    async def _models(self, request: web.Request) -> web.Response:
        row = {
            "id": self.script.model,
            "object": "model",
            "created": 0,
            "owned_by": "rackbench",
            "root": self.script.model,
            "max_model_len": self.script.context_tokens,
        }
        return web.json_response({"object": "list", "data": [row]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            body = _parsed(await request.read())
            self.requests.append(body)
            self._check(body)
            return await self._answer(request, body)
        except _RefusedError as refused:
            return web.json_response(refused.body, status=refused.status)
        except asyncio.CancelledError:
            self.abandoned += not self._stopping
            raise

    async def _answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        position, conversation = self._conversation(body["messages"])
        turn, fails = self._turn(position, conversation, body["messages"])
        if fails and turn.status:
            raise _RefusedError(turn.status, f"scripted HTTP {turn.status}")
        if fails and turn.hang:
            await asyncio.Event().wait()
        said = answer(
            turn, body, model=self.script.model, context_tokens=self.script.context_tokens
        )
        if body.get("stream"):
            return await self._stream(request, body, said, turn if fails else None)
        if fails and turn.error_in_stream is not None:
            raise _RefusedError(500, turn.error_in_stream)
        return await self._whole(request, said, turn.cut if fails else None)

    def _check(self, body: dict[str, Any]) -> None:
        """Refuse what the engine refuses, in its own words."""
        context_tokens, model = self.script.context_tokens, body.get("model")
        if model not in (None, self.script.model):
            raise _RefusedError(
                404, f"The model `{model}` does not exist. Valid aliases: {self.script.model}."
            )
        for name in ("max_completion_tokens", "max_tokens"):
            asked = body.get(name)
            if isinstance(asked, int) and asked > context_tokens:
                raise _RefusedError(
                    400,
                    f"{name}={asked} cannot be greater than max_model_len={context_tokens}. "
                    f"Please request fewer output tokens. (parameter={name}, value={asked})",
                    param=name,
                )
        if prompt_size(body)[0] > context_tokens:
            raise _RefusedError(
                400,
                f"This model's maximum context length is {context_tokens} tokens. However, your "
                f"prompt contains at least {context_tokens + 1} input tokens, which exceeds this "
                "limit even without any output tokens. Please reduce the length of the input "
                f"prompt. (parameter=input_tokens, value={context_tokens + 1})",
                param="input_tokens",
            )

    def _conversation(self, messages: Sequence[Any]) -> tuple[int, Conversation]:
        first = next((_text(m) for m in messages if isinstance(m, dict) and _is_user(m)), "")
        for position, conversation in enumerate(self.script.conversations):
            if conversation.when is None or conversation.when in first:
                return position, conversation
        raise _RefusedError(400, "no conversation of the script fits the first user message")

    def _turn(
        self, position: int, conversation: Conversation, messages: Sequence[Any]
    ) -> tuple[Turn, bool]:
        """The turn that is due, and whether it fails this time."""
        due = []
        for index, turn in enumerate(conversation.turns):
            is_spent = turn.times is not None and self._faults[position, index] >= turn.times
            if turn.has_answer or not is_spent:
                due.append((index, turn, bool(turn.faults) and not is_spent))
        number = sum(is_answer(message) for message in messages)
        index, turn, fails = due[min(number, len(due) - 1)]
        self._faults[position, index] += fails
        return turn, fails

    async def _stream(
        self, request: web.Request, body: dict[str, Any], said: Answer, fault: Turn | None
    ) -> web.StreamResponse:
        cut = fault.cut if fault else None
        if cut == 0:
            return _drop(request, web.StreamResponse())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        opening = said.chunk({"role": "assistant", "content": ""})
        for number, piece in enumerate(said.pieces):
            if number == cut:
                break
            await self._pause(number)
            if number == 0:
                await response.write(_event(opening))
            await response.write(_event(said.chunk(piece)))
        if cut is not None:
            return _drop(request, response)
        if fault and fault.error_in_stream is not None:
            await response.write(_event(_RefusedError(500, fault.error_in_stream).body))
        else:
            await response.write(_event(said.chunk({}, said.finish_reason)))
            if (body.get("stream_options") or {}).get("include_usage"):
                await response.write(_event(said.usage_chunk()))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _whole(
        self, request: web.Request, said: Answer, cut: int | None
    ) -> web.StreamResponse:
        for number in range(len(said.pieces)):
            await self._pause(number)
        whole = web.json_response(said.whole())
        if cut is None:
            return whole
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if cut:
            assert isinstance(whole.body, bytes)
            response.content_length = len(whole.body)
            await response.prepare(request)
            await response.write(whole.body[: len(whole.body) // 2])
        return _drop(request, response)

    async def _pause(self, number: int) -> None:
        seconds = self.script.token_seconds if number else self.script.first_token_seconds
        if seconds:
            await asyncio.sleep(seconds)


@asynccontextmanager
async def serve_script(
    script: Script, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[ScriptedServer]:
    """Serve a script until the context ends; port 0 takes any free one."""
    server = ScriptedServer(script)
    runner = web.AppRunner(
        server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0]
        server.base_url = f"http://{bound[0]}:{bound[1]}/v1"
        yield server
    finally:
        server.stop()
        with anyio.move_on_after(_STOP_SECONDS, shield=True):
            await runner.cleanup()


def _drop(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection after what was written, as a dying process would."""
    if request.transport:
        request.transport.close()
    return response


def _event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise _RefusedError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise _RefusedError(400, "the body is not an object with a list of messages")
    return body


def _is_user(message: dict[str, Any]) -> bool:
    return message.get("role") == "user"


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
