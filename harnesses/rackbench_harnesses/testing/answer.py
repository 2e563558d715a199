"""A scripted answer in the shapes of the chat completions API."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackbench_harnesses.testing.script import Turn

Delta = dict[str, Any]

_WORD = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENT_CHARACTERS = 16
_CHARACTERS_PER_TOKEN = 4
# An engine caches whole blocks only.
_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, cut into the pieces that a stream would bring; each counts as a token."""

    id: str
    model: str
    pieces: Sequence[Delta]
    finish_reason: str
    usage: Mapping[str, object]

    def chunk(self, delta: Delta, finish_reason: str | None = None) -> dict[str, Any]:
        """One event of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._envelope("chat.completion.chunk", choices=[choice])

    def usage_chunk(self) -> dict[str, Any]:
        """The last event of a stream whose request asked for usage."""
        return self._envelope("chat.completion.chunk", choices=[], usage=self.usage)

    def whole(self) -> dict[str, Any]:
        """The body of an unstreamed answer."""
        message = _message(self.pieces)
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return self._envelope("chat.completion", choices=[choice], usage=self.usage)

    def _envelope(self, kind: str, **fields: object) -> dict[str, Any]:
        # No clock: the same request gets the same bytes.
        return {"id": self.id, "object": kind, "created": 0, "model": self.model, **fields}


def answer(turn: Turn, request: Mapping[str, Any], *, model: str, context_tokens: int) -> Answer:
    """What a turn answers to a request, within the request's limit of output."""
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:24]
    prompt_tokens, cached_tokens = prompt_size(request)
    pieces = list(_pieces(turn, digest))
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    room = context_tokens - prompt_tokens
    allowed = min(room, limit) if isinstance(limit, int) else room
    finish = "tool_calls" if turn.tool_calls else "stop"
    if len(pieces) > allowed:
        pieces, finish = pieces[:allowed], "length"
    reasoning_tokens = sum("reasoning_content" in piece for piece in pieces)
    usage = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + len(pieces),
        "completion_tokens": len(pieces),
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
    }
    return Answer(f"chatcmpl-{digest}", model, pieces, finish, usage)


def prompt_size(request: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of a prompt, and those that an earlier turn of the conversation left in the cache."""
    messages, tools = list(request.get("messages") or ()), request.get("tools")
    answered = [index for index, message in enumerate(messages) if is_answer(message)]
    seen = _tokens([messages[: answered[-1] + 1], tools]) if answered else 0
    return _tokens([messages, tools]), seen // _BLOCK_TOKENS * _BLOCK_TOKENS


def is_answer(message: object) -> bool:
    """Whether a message of a conversation was said by the model."""
    return isinstance(message, Mapping) and message.get("role") == "assistant"


def _tokens(value: object) -> int:
    return len(json.dumps(value)) // _CHARACTERS_PER_TOKEN + 1


def _pieces(turn: Turn, digest: str) -> Sequence[Delta]:
    pieces: list[Delta] = []
    pieces += [{"reasoning_content": word} for word in _WORD.findall(turn.reasoning or "")]
    pieces += [{"content": word} for word in _WORD.findall(turn.say or "")]
    for index, call in enumerate(turn.tool_calls):
        text = json.dumps(call.arguments) if call.raw_arguments is None else call.raw_arguments
        opening = {
            "index": index,
            "id": f"call_{digest}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        pieces.append({"tool_calls": [opening]})
        pieces += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
            for part in re.findall(f"(?s).{{1,{_ARGUMENT_CHARACTERS}}}", text)
        ]
    return pieces


def _message(pieces: Sequence[Delta]) -> dict[str, Any]:
    """The pieces of a stream, put together."""
    content = "".join(piece.get("content", "") for piece in pieces)
    reasoning = "".join(piece.get("reasoning_content", "") for piece in pieces)
    calls: list[dict[str, Any]] = []
    for piece in pieces:
        for part in piece.get("tool_calls", ()):
            if "id" in part:
                calls.append({key: value for key, value in part.items() if key != "index"})
                calls[-1]["function"] = dict(part["function"])
            else:
                calls[-1]["function"]["arguments"] += part["function"]["arguments"]
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    return {**message, "tool_calls": calls}
