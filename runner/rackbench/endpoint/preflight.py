"""Proofs that an endpoint must give before any scored work."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx2
import openai

from rackbench.endpoint.serving import Serving
from rackbench_results.records import Preflight, PreflightCheck

_CHECK_SECONDS = 180.0
_TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a shell command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    },
}

Check = Callable[[openai.AsyncOpenAI, str], Awaitable[str]]


class _NotProvedError(RuntimeError):
    """What came back is not what was asked for."""


async def preflight(serving: Serving) -> Preflight:
    """Ask for a completion and for a streamed tool call, and look hard at what comes back."""
    upstream = serving.upstream
    async with openai.AsyncOpenAI(
        base_url=upstream.base_url,
        api_key=upstream.api_key or "none",
        max_retries=0,
        timeout=_CHECK_SECONDS,
    ) as client:
        model = serving.profile.policy.model or serving.identity.model
        checks = [await _prove("completion", _completion, client, model)]
        if serving.profile.tools and checks[0].state == "pass":
            checks.append(await _prove("tool_call", _tool_call, client, model))
    return Preflight(at=datetime.now(UTC), checks=tuple(checks))


async def _prove(name: str, check: Check, client: openai.AsyncOpenAI, model: str) -> PreflightCheck:
    began = time.monotonic()
    try:
        with anyio.fail_after(_CHECK_SECONDS):
            detail, state = await check(client, model), "pass"
    except (openai.APIError, httpx2.TransportError, TimeoutError, _NotProvedError) as error:
        detail, state = str(error) or type(error).__name__, "fail"
    seconds = round(time.monotonic() - began, 3)
    return PreflightCheck.model_validate(
        {"name": name, "state": state, "detail": detail[:500], "seconds": seconds}
    )


async def _completion(client: openai.AsyncOpenAI, model: str) -> str:
    answer = await client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Say hello."}],
        max_tokens=16,
    )
    if not answer.choices:
        raise _NotProvedError("the answer holds no choice")
    if not answer.usage or not answer.usage.completion_tokens:
        raise _NotProvedError("the server counts no tokens (usage is missing)")
    usage = answer.usage
    return f"{usage.prompt_tokens} prompt and {usage.completion_tokens} completion tokens"


async def _tool_call(client: openai.AsyncOpenAI, model: str) -> str:
    """A forced call, streamed: the arguments must be JSON that fits the schema."""
    request: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "List the files of the current folder."}],
        "tools": [_TOOL],
        "tool_choice": "required",
        "max_tokens": 256,
        "stream": True,
    }
    stream: Any = await client.chat.completions.create(**request)
    name, arguments = "", ""
    async for chunk in stream:
        for choice in chunk.choices[:1]:
            for part in choice.delta.tool_calls or []:
                name += (part.function.name or "") if part.function else ""
                arguments += (part.function.arguments or "") if part.function else ""
    if name != "bash":
        raise _NotProvedError(f"asked for a call of bash, got {name or 'no tool call'!r}")
    try:
        value = json.loads(arguments)
    except json.JSONDecodeError as error:
        raise _NotProvedError(f"the arguments are not JSON: {arguments[:200]!r}") from error
    if not isinstance(value, dict) or not isinstance(value.get("command"), str):
        raise _NotProvedError(f"the arguments do not fit the schema: {arguments[:200]!r}")
    return f"called bash with {value['command'][:80]!r}"
