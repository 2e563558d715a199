"""Keys that a schema does not know, and what was probably meant by them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from rackbench_tasks.problem import key_path

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NEAR = 0.75  # four letters, two of them swapped


@dataclass(frozen=True, slots=True)
class Limits:
    """Which keys bound what a task may do: one misspelt would bound nothing, in silence."""

    keys: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    """A key made of one of these is meant as a limit, however it goes on."""

    def looks_like(self, key: str, *, beside: Collection[str]) -> bool:
        """Whether a key is meant as a limit, given the keys that its table does have."""
        words = {word.lower() for word in _WORDS.findall(key)}
        near = difflib.get_close_matches(key, self.keys.intersection(beside), 1, _NEAR)
        return key in self.keys or bool(words & self.words) or bool(near)


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key that nothing reads."""

    path: str
    hint: str
    is_limit: bool


@dataclass(frozen=True, slots=True)
class _Search:
    homes: Mapping[str, Sequence[str]]
    limits: Limits

    def table(self, model: type[BaseModel], table: object, at: tuple[object, ...]) -> _Found:
        if isinstance(table, (list, tuple)):
            for number, item in enumerate(table):
                yield from self.table(model, item, (*at, number))
        if not isinstance(table, dict):
            return
        fields = model.model_fields
        for key, value in table.items():
            if key not in fields:
                yield from self.unknown(str(key), value, at, fields)
            elif inner := _model_in(fields[key].annotation):
                yield from self.table(inner, value, (*at, key))

    def unknown(
        self, key: str, value: object, at: tuple[object, ...], known: Collection[str]
    ) -> _Found:
        path = (*at, key)
        is_limit = self.limits.looks_like(key, beside=known)
        yield UnknownKey(key_path(path), self.hint(key, known), is_limit)
        # Limits below a table whose own name is misspelt do not hold either.
        suspicious = bool(difflib.get_close_matches(key, known, 1))
        yield from self.lost_limits(value, path, suspicious=suspicious)

    def lost_limits(self, value: object, at: tuple[object, ...], *, suspicious: bool) -> _Found:
        if isinstance(value, (list, tuple)):
            value = dict(enumerate(value))
        if not isinstance(value, dict):
            return
        for key, child in value.items():
            path, name = (*at, key), str(key)
            if name in self.limits.keys or (
                suspicious and self.limits.looks_like(name, beside=self.limits.keys)
            ):
                yield UnknownKey(key_path(path), f"there is no table {key_path(at)!r}", True)
            yield from self.lost_limits(child, path, suspicious=suspicious)

    def hint(self, key: str, known: Collection[str]) -> str:
        if homes := self.homes.get(key):
            return f"it belongs {' or '.join(homes)}"
        elsewhere = difflib.get_close_matches(key, self.homes, 1, _NEAR)
        if elsewhere and not difflib.get_close_matches(key, known, 1):
            return f"did you mean {elsewhere[0]!r} {' or '.join(self.homes[elsewhere[0]])}?"
        return did_you_mean(key, known)


_Found = Iterator[UnknownKey]


def unknown_keys(
    model: type[BaseModel], table: object, *, limits: Limits | None = None
) -> list[UnknownKey]:
    """Keys of a table, and of the tables within, that no field of the model reads."""
    return list(_Search(_homes(model), limits or Limits()).table(model, table, ()))


def did_you_mean(word: str, known: Collection[str]) -> str:
    """The nearest known word, or all of them."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    near = near or sorted(name for name in known if word in name.split("_"))
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"


def _homes(model: type[BaseModel]) -> dict[str, list[str]]:
    """Where each key of the top and of its tables belongs, in words."""
    homes: dict[str, list[str]] = {key: ["at the top level"] for key in model.model_fields}
    for section, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        for key in inner.model_fields if inner else ():
            homes.setdefault(key, []).append(f"in [{section}]")
    return homes


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that an annotation holds, also within lists and optional values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if found := _model_in(argument):
            return found
    return None
