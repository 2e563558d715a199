"""A script: what a model that is not there says, turn by turn, and how it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, model_validator

from rackbench_harnesses.settings import Settings, SettingsError, read_settings

_FAULTS = ("status", "hang", "cut", "error_in_stream")
_ANSWERS = ("say", "reasoning", "call", "calls")

Seconds = Annotated[float, Field(ge=0)]


class ScriptError(ValueError):
    """A script that makes no sense; the message is one line."""


class ScriptedCall(Settings):
    """A tool call that the model asks for."""

    name: str
    arguments: dict[str, object] = Field(default_factory=dict)
    raw_arguments: str | None = None
    """Sent as it stands, for arguments that are no JSON."""


class Turn(Settings):
    """One answer: what is said, or how it fails."""

    say: str | None = None
    reasoning: str | None = None
    """Sent as `reasoning_content`, before anything else."""
    call: ScriptedCall | None = None
    calls: tuple[ScriptedCall, ...] = ()
    status: Annotated[int, Field(ge=400, le=599)] | None = None
    """An HTTP error instead of an answer."""
    hang: bool = False
    """The request is accepted and never answered."""
    cut: Annotated[int, Field(ge=0)] | None = None
    """The connection is dropped after so many pieces; 0: before the first byte."""
    error_in_stream: str | None = None
    """An error inside HTTP 200 after the pieces, as the engine sends when it dies while streaming;
    an unstreamed request gets HTTP 500."""
    times: Annotated[int, Field(ge=1)] | None = None
    """The fault happens so often, counted over all requests of the server; then the turn answers,
    or is passed over where it has nothing to say. None: always."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Turn:
        if len(self.faults) > 1:
            raise ValueError(f"a turn fails in one way, not in several: {', '.join(self.faults)}")
        if self.times and not self.faults:
            raise ValueError(f"`times` counts a fault; give one of {', '.join(_FAULTS)}")
        if self.call and self.calls:
            raise ValueError("give `call` or `calls`, not both")
        if not self.faults and not self.has_answer:
            raise ValueError(f"a turn needs one of {', '.join((*_ANSWERS, *_FAULTS))}")
        return self

    @property
    def faults(self) -> tuple[str, ...]:
        """The ways in which this turn fails."""
        given = {name: getattr(self, name) for name in _FAULTS}
        return tuple(
            name for name, value in given.items() if value is not None and value is not False
        )

    @property
    def has_answer(self) -> bool:
        """Whether it says anything."""
        return any(getattr(self, name) not in (None, ()) for name in _ANSWERS)

    @property
    def tool_calls(self) -> tuple[ScriptedCall, ...]:
        """All calls, however they were written."""
        return (self.call,) if self.call else self.calls


class Conversation(Settings):
    """The turns of one kind of conversation."""

    when: str | None = None
    """Substring of the first user message; None fits every conversation."""
    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]
    """Chosen by the number of assistant messages in the request; the last one repeats."""

    @model_validator(mode="after")
    def _has_an_end(self) -> Conversation:
        last = self.turns[-1]
        if last.times and not last.has_answer:
            raise ValueError("the last turn must answer once its `times` are over")
        return self


class Script(Settings):
    """What a scripted server serves."""

    model: str = "scripted"
    """Id under which it is served."""
    context_tokens: Annotated[int, Field(ge=1)] = 32768
    token_seconds: Seconds = 0.0
    """Pause before each further piece of an answer."""
    first_token_seconds: Seconds = 0.0
    """Pause before the first piece."""
    conversations: Annotated[tuple[Conversation, ...], Field(min_length=1)]
    """The first that fits is used."""


def load_script(path: Path) -> Script:
    """Read a script from a YAML file.

    Raises ScriptError, and OSError where the file cannot be read.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScriptError(f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ScriptError(
            f"expected keys and values (model, conversations, …), got {type(values).__name__}"
        )
    try:
        return read_settings(Script, values)
    except SettingsError as error:
        raise ScriptError(" ".join(str(error).split())) from error
