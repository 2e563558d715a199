"""One streamed answer of a chat model, put together; with retries that are ours and counted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai
import stamina

from rackbench_harnesses.ports import Finish
from rackbench_results.records import ToolCall

_ATTEMPTS = 4
_RETRIED_SECONDS = 60.0
# The engine has used both names for the same thing.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class ModelCallFailed(RuntimeError):  # noqa: N818  # reads as what happened
    """A model call that no retry could save; `finish` says what it means for the attempt."""

    def __init__(self, finish: Finish, detail: str) -> None:
        super().__init__(detail)
        self.finish = finish


class _EngineFaultError(RuntimeError):
    """Something that may pass: a lost connection, an overloaded or restarting engine."""


@dataclass(slots=True)
class Reply:
    """An answer as it grew, piece by piece."""

    text: str = ""
    reasoning: str = ""
    reasoning_field: str = _REASONING_FIELDS[0]
    refusal: str = ""
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    calls: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Prompt and completion, as far as the server told."""
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls asked for; broken arguments are kept raw."""
        return [
            ToolCall(
                call_id=call["id"] or f"call-{index}",
                name=call["name"],
                arguments=_object(call["arguments"]),
                raw_arguments=call["arguments"],
            )
            for index, call in sorted(self.calls.items())
        ]

    def as_message(self) -> dict[str, Any]:
        """The answer as the next request hands it back, its reasoning too."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message[self.reasoning_field] = self.reasoning
        if self.calls:
            # A server refuses a history with arguments that are no JSON object.
            message["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments or {})},
                }
                for call in self.tool_calls
            ]
        return message

    def add(self, chunk: Any) -> None:
        """Take one piece of the stream."""
        self.model = chunk.model or self.model
        if usage := chunk.usage:
            self.prompt_tokens = usage.prompt_tokens
            self.completion_tokens = usage.completion_tokens
            details = usage.prompt_tokens_details
            self.cached_tokens = details.cached_tokens if details else None
        for choice in chunk.choices[:1]:
            self.finish_reason = choice.finish_reason or self.finish_reason
            delta = choice.delta
            self.text += delta.content or ""
            self.refusal += delta.refusal or ""
            for name in _REASONING_FIELDS:
                if piece := (delta.model_extra or {}).get(name):
                    self.reasoning += piece
                    self.reasoning_field = name
            for part in delta.tool_calls or []:
                call = self.calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += part.id or ""
                if part.function:
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""


async def ask(client: openai.AsyncOpenAI, request: dict[str, Any]) -> Reply:
    """Put a question to the model and wait for the whole answer.

    Faults that may pass are tried again, each try a call of its own at the gateway.
    Raises ModelCallFailed.
    """
    try:
        async for attempt in stamina.retry_context(
            on=_EngineFaultError, attempts=_ATTEMPTS, timeout=_RETRIED_SECONDS, wait_initial=0.5
        ):
            with attempt:
                return await _ask_once(client, request)
    except _EngineFaultError as fault:
        raise ModelCallFailed(Finish.ENDPOINT_ERROR, str(fault)) from fault
    raise AssertionError


async def _ask_once(client: openai.AsyncOpenAI, request: dict[str, Any]) -> Reply:
    reply = Reply()
    try:
        stream: AsyncIterator[Any] = await client.chat.completions.create(
            **request, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in stream:
            reply.add(chunk)
    except openai.APIStatusError as error:
        raise _explained(error) from error
    except (openai.APIError, httpx2.TransportError, json.JSONDecodeError) as error:
        message = f"the model call broke off: {error or type(error).__name__}"
        raise _EngineFaultError(message) from error
    if reply.finish_reason is None:
        message = "the model's answer ended before it was finished"
        raise _EngineFaultError(message)
    if reply.finish_reason == "content_filter":
        reply.refusal = reply.refusal or "stopped by a content filter"
    return reply


def _explained(error: openai.APIStatusError) -> Exception:
    """What an HTTP error means for the attempt."""
    body = error.body if isinstance(error.body, dict) else {}
    kind, said = str(body.get("type", "")), str(body.get("message", error.message))
    if kind == "budget_exhausted":
        spent = Finish.TOKEN_LIMIT if "token" in said else Finish.STEP_LIMIT
        return ModelCallFailed(spent, said)
    if error.status_code >= 500 or error.status_code in (408, 409, 429):
        return _EngineFaultError(f"HTTP {error.status_code}: {said}")
    if "context length" in said or "max_model_len" in said:
        return ModelCallFailed(Finish.CONTEXT_LIMIT, said)
    return ModelCallFailed(Finish.ERROR, f"HTTP {error.status_code}: {said}")


def _object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
