"""Rules of a .gitignore file, as far as digests of datasets depend on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BRACKET = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Patterns in their order; the last that matches a path decides."""

    patterns: tuple[tuple[re.Pattern[str], bool], ...]
    """Each with whether it ignores; a pattern behind `!` takes back."""

    def verdict(self, path: str) -> bool | None:
        """Whether a path is ignored, POSIX and relative, a folder's ending in `/`.

        None where no pattern matches.
        """
        verdict = None
        for pattern, ignores in self.patterns:
            if pattern.match(path):
                verdict = ignores
        return verdict


def ignore_rules(lines: Iterable[str]) -> IgnoreRules:
    """Read the lines of a .gitignore file; what is no pattern matches nothing."""
    return IgnoreRules(tuple(_patterns(lines)))


def _patterns(lines: Iterable[str]) -> Iterator[tuple[re.Pattern[str], bool]]:
    for line in lines:
        text = line if line.endswith("\\ ") else line.rstrip()
        if not text or text.startswith("#"):
            continue
        ignores = not text.startswith("!")
        text = text.removeprefix("!")
        try:
            yield re.compile(_expression(text), re.DOTALL), ignores
        except re.error:
            continue


def _expression(text: str) -> str:
    is_anchored = "/" in text[:-1]
    parts = text.removeprefix("/").split("/")
    if not is_anchored:
        parts = ["**", *parts]
    if not parts[-1]:
        parts[-1] = "**"  # a folder: what lies below it is meant
    parts = [part for at, part in enumerate(parts) if not (at and part == parts[at - 1] == "**")]
    if parts == ["**"]:
        return "/" if text.endswith("/") and text != "/" else ""
    built, between = "", ""
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        if part == "**":
            built += "(?:.+/)?" if not at else ("/" if is_last else "(?:/.+)?")
            between = "/" if at else ""
        elif part == "*":
            built += (
                between
                + "[^/]+"
                + ("/?$" if is_last and len(parts) > 1 + (parts[0] == "**") else "")
            )
            between = "/"
        else:
            built += between + _glob(part) + ("(?:/|$)" if is_last else "")
            between = "/"
    return built


def _glob(part: str) -> str:
    built, at = "", 0
    while at < len(part):
        bracket = _BRACKET.match(part, at)
        if part[at] == "\\":
            if at + 1 == len(part):
                raise re.error("nothing is escaped")
            built += re.escape(part[at + 1])
            at += 2
        elif part[at] in "*?":
            built += "[^/]*" if part[at] == "*" else "[^/]"
            at += 1
        elif bracket:
            built += f"[{'^' if bracket[1] else ''}{_inside(bracket[2])}]"
            at = bracket.end()
        else:
            built += re.escape(part[at])
            at += 1
    return built


def _inside(bracket: str) -> str:
    return bracket.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
