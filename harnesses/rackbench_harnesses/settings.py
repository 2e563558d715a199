"""Settings of a harness: a frozen model, and errors that a person can act on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

M = TypeVar("M", bound=BaseModel)


class SettingsError(ValueError):
    """Settings that make no sense; one line per problem in `problems`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Settings(BaseModel):
    """What a harness can be told; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def read_settings(model: type[M], values: Mapping[str, object]) -> M:
    """Validate settings.

    Raises SettingsError with «did you mean» for keys that do not exist.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError([_problem(model, dict(line)) for line in error.errors()]) from error


def _problem(model: type[BaseModel], line: dict[str, object]) -> str:
    location = line["loc"]
    assert isinstance(location, tuple)
    path = ".".join(str(part) for part in location)
    if line["type"] == "extra_forbidden":
        known = _known_keys(model, location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(known)}"
        return f"unknown key {path!r}{hint}"
    if line["type"] == "missing":
        return f"{path!r} is missing"
    shown = repr(line.get("input"))
    if len(shown) > 80:
        shown = shown[:77] + "…"
    return f"{path!r}: {line['msg']} (got {shown})" if path else str(line["msg"])


def _known_keys(model: type[BaseModel], path: tuple[object, ...]) -> list[str]:
    """Keys of the nested model that a path of an error leads to."""
    current = model
    for part in path:
        field = current.model_fields.get(str(part))
        if field is None:
            continue  # an index into a list, or a key of a mapping
        inner = _model_in(field.annotation)
        if inner is None:
            return []
        current = inner
    return sorted(field.alias or name for name, field in current.model_fields.items())


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if found := _model_in(argument):
            return found
    return None
