"""The chat completions dialect, read on the side: tokens, finish, tool calls, hidden errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rackbench.gateway.sse import SseEvents

NAME = "openai-chat"
"""Of the dialect, as recorded with each call."""

_BODY_BYTES = 16 * 1024 * 1024
_ERROR_CHARACTERS = 500
_CONTENT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls")


@dataclass(slots=True)
class Reading:
    """What an answer says about itself; None is unknown."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    tool_calls: int = 0
    error: str | None = None


class Reader(Protocol):
    """Reads an answer while it passes, never touching it."""

    reading: Reading
    is_complete: bool
    """Nothing that comes now can change the reading."""

    def feed(self, data: bytes) -> int:
        """Take the next bytes; how many pieces of the model's output they held."""
        ...

    def end(self) -> None:
        """No more bytes will come, since the answer is whole."""
        ...


class StreamReader:
    """Reads a streamed answer."""

    def __init__(self) -> None:
        self.reading = Reading()
        self.is_complete = False
        self._events = SseEvents()
        self._tools: set[tuple[object, object]] = set()

    def feed(self, data: bytes) -> int:
        """Pieces are events that bring content, reasoning or a part of a tool call."""
        pieces = 0
        for event in self._events.feed(data):
            if event == b"[DONE]":
                self.end()
            elif not self.is_complete:
                pieces += self._take(event)
        return pieces

    def end(self) -> None:
        """A stream that broke off before its finish is an error, however cleanly it closed."""
        if not self.is_complete and self.reading.finish_reason is None:
            self._fail("the stream ended before the answer was finished")
        self.is_complete = True

    def _take(self, event: bytes) -> bool:
        try:
            chunk = json.loads(event)
        except (ValueError, RecursionError):
            chunk = None
        if not isinstance(chunk, dict):
            self._fail(
                f"an event of the stream is no JSON object: {_cut(event.decode(errors='replace'))}"
            )
            return False
        if error := error_in(chunk):
            self._fail(error)
        read_usage(chunk.get("usage"), self.reading)
        has_content = False
        for choice in _dicts(chunk.get("choices")):
            index, delta = choice.get("index"), choice.get("delta")
            _read_finish(choice, self.reading)
            if isinstance(delta, dict):
                has_content |= any(delta.get(name) for name in _CONTENT_FIELDS)
                for part in _dicts(delta.get("tool_calls")):
                    self._tools.add((repr(index), repr(part.get("index"))))
        self.reading.tool_calls = len(self._tools)
        return has_content

    def _fail(self, error: str) -> None:
        self.reading.error = self.reading.error or error


class BodyReader:
    """Reads an answer that comes as one JSON object, or as whatever an error looks like."""

    def __init__(self, *, is_success: bool) -> None:
        self.reading = Reading()
        self.is_complete = False
        self._is_success = is_success
        self._parts: list[bytes] = []
        self._bytes = 0

    def feed(self, data: bytes) -> int:
        """Pieces cannot be told apart here."""
        self._bytes += len(data)
        if self._bytes <= _BODY_BYTES:
            self._parts.append(data)
        else:
            self._parts.clear()
        return 0

    def end(self) -> None:
        """A body beyond 16 MiB stays unread."""
        if self.is_complete:
            return
        self.is_complete = True
        if self._bytes > _BODY_BYTES:
            return
        raw = b"".join(self._parts)
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        choices = _dicts(body.get("choices")) if isinstance(body, dict) else []
        error = error_in(body) if isinstance(body, dict) else None
        if error is None and not (self._is_success and choices):
            said = _cut(raw.decode(errors="replace")) or "no bytes"
            error = f"not a chat completion: {said}" if self._is_success else said
        self.reading.error = error
        if isinstance(body, dict):
            read_usage(body.get("usage"), self.reading)
        for choice in choices:
            _read_finish(choice, self.reading)
            message = choice.get("message")
            if isinstance(message, dict):
                self.reading.tool_calls += len(_dicts(message.get("tool_calls")))


class NoReader:
    """For what cannot be read, such as a compressed answer: everything stays unknown."""

    def __init__(self) -> None:
        self.reading = Reading()
        self.is_complete = False

    def feed(self, data: bytes) -> int:
        """Nothing is known about them."""
        return 0

    def end(self) -> None:
        """Nothing to conclude."""
        self.is_complete = True


def reader_for(status: int, headers: Mapping[str, str]) -> Reader:
    """The reader that fits an answer's status and headers."""
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        return NoReader()
    if status == 200 and headers.get("Content-Type", "").lower().startswith("text/event-stream"):
        return StreamReader()
    return BodyReader(is_success=status == 200)


def read_usage(usage: object, reading: Reading) -> None:
    """Take the server's token counts over; what it does not tell stays as it was."""
    if not isinstance(usage, dict):
        return
    prompt, completion = (
        usage.get("prompt_tokens_details"),
        usage.get("completion_tokens_details"),
    )
    for name, value in (
        ("prompt_tokens", usage.get("prompt_tokens")),
        ("completion_tokens", usage.get("completion_tokens")),
        ("cached_tokens", prompt.get("cached_tokens") if isinstance(prompt, dict) else None),
        (
            "reasoning_tokens",
            completion.get("reasoning_tokens") if isinstance(completion, dict) else None,
        ),
    ):
        if type(value) is int and value >= 0:
            setattr(reading, name, value)


def error_in(body: Mapping[str, Any]) -> str | None:
    """The message of an error object in any of the shapes that servers use; None: it is none."""
    error = body.get("error")
    if error is None and body.get("object") == "error":
        error = body
    if isinstance(error, dict):
        return _cut(str(error.get("message") or error.get("type") or json.dumps(error)))
    return _cut(str(error)) if error else None


def _read_finish(choice: Mapping[str, Any], reading: Reading) -> None:
    reason = choice.get("finish_reason")
    if isinstance(reason, str) and (reading.finish_reason is None or choice.get("index") == 0):
        reading.finish_reason = reason


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _cut(text: str) -> str:
    return text if len(text) <= _ERROR_CHARACTERS else text[: _ERROR_CHARACTERS - 1] + "…"
