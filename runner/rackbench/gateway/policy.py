"""What a model's profile demands of every request, enforced since the engine does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

# Changing them would change what the harness gets back, or whom it asks.
_NOT_PARAMETERS = ("messages", "model", "stream", "stream_options")
_CAPS = ("max_tokens", "max_completion_tokens")
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_SHOWN_CHARACTERS = 60


class Policy(BaseModel):
    """Data of a profile: how requests are changed on their way to the engine."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    model: str | None = None
    """Name sent upstream, whatever the harness asked for; None leaves it."""
    force: dict[str, JsonValue] = Field(default_factory=dict)
    """Parameters overwritten in every request."""
    default: dict[str, JsonValue] = Field(default_factory=dict)
    """Parameters set where the request has none."""
    output_tokens: Annotated[int, Field(ge=1)] | None = None
    """Cap of one answer: a higher or missing limit becomes this one."""
    drop_fields: tuple[str, ...] = ()
    """Top-level fields removed from every request."""
    keep_reasoning: bool = True
    """False removes the reasoning of earlier answers from the conversation."""
    include_usage: bool = True
    """A streamed request asks for its usage, since nothing else counts its tokens. A harness that
    did not ask gets one more chunk before the end, with usage and without choices, which clients
    of this API accept."""

    @model_validator(mode="after")
    def _holds_parameters_only(self) -> Policy:
        for place in ("force", "default"):
            for name in _NOT_PARAMETERS:
                if name in getattr(self, place):
                    raise ValueError(f"{place} takes sampling parameters, {name!r} is none")
        return self


def apply(policy: Policy, body: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The request as the policy wants it, and what was changed, in words; `body` stays as it was."""
    new, changes = dict(body), list[str]()
    for name in policy.drop_fields:
        if name in new:
            del new[name]
            changes.append(f"{name}: dropped")
    if policy.model is not None:
        _set(new, "model", policy.model, changes)
    for name, value in policy.force.items():
        _set(new, name, value, changes)
    for name, value in policy.default.items():
        if name not in new:
            _set(new, name, value, changes)
    if policy.output_tokens is not None:
        _cap(new, policy.output_tokens, changes)
    if not policy.keep_reasoning:
        _drop_reasoning(new, changes)
    if policy.include_usage and new.get("stream"):
        _ask_for_usage(new, changes)
    return new, tuple(changes)


def _set(body: dict[str, Any], name: str, value: JsonValue, changes: list[str]) -> None:
    if name not in body:
        changes.append(f"{name}: set to {_shown(value)}")
    elif _differ(body[name], value):
        changes.append(f"{name}: {_shown(body[name])} → {_shown(value)}")
    else:
        return
    body[name] = value


def _cap(body: dict[str, Any], most: int, changes: list[str]) -> None:
    """Whatever is no number within the cap is replaced: engines read «"99999"» as a number too."""
    named = [name for name in _CAPS if body.get(name) is not None]
    for name in named or _CAPS[:1]:
        asked = body.get(name)
        if type(asked) is not int or not 0 <= asked <= most:
            _set(body, name, most, changes)


def _drop_reasoning(body: dict[str, Any], changes: list[str]) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return
    kept = [_without_reasoning(message) for message in messages]
    if dropped := sum(old is not new for old, new in zip(messages, kept, strict=True)):
        body["messages"] = kept
        changes.append(f"reasoning of {dropped} earlier answers: dropped")


def _without_reasoning(message: Any) -> Any:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    if not any(name in message for name in _REASONING_FIELDS):
        return message
    return {name: value for name, value in message.items() if name not in _REASONING_FIELDS}


def _ask_for_usage(body: dict[str, Any], changes: list[str]) -> None:
    options = body.get("stream_options")
    if options is None:
        options = {}
    if not isinstance(options, dict) or options.get("include_usage") is True:
        return  # what is no object is the engine's to refuse
    body["stream_options"] = {**options, "include_usage": True}
    changes.append("stream_options.include_usage: set to true")


def _differ(old: Any, new: Any) -> bool:
    return bool(old != new) or isinstance(old, bool) is not isinstance(new, bool)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
