"""What the lint finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """The task would be sent back."""
    WARNING = "warning"
    """A person has to look: it is a guess from the text, or a habit that often goes wrong."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One place that breaks one rule."""

    rule: str
    """`area/rule`; it does not change between versions."""
    level: Level
    where: str
    """`file:line`, from the task's folder; without a line where the file as a whole is meant."""
    text: str
    """What is there, why that is bad, and how to mend it."""


def error(rule: str, where: str, text: str) -> LintFinding:
    """A finding for which the task would be sent back."""
    return LintFinding(rule, Level.ERROR, where, text)


def warning(rule: str, where: str, text: str) -> LintFinding:
    """A finding that a person has to look at."""
    return LintFinding(rule, Level.WARNING, where, text)
