"""What a check says of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How much a finding weighs."""

    ERROR = "error"
    """The task fails the check."""
    WARNING = "warning"
    """A person should look; the task passes."""
    NOTE = "note"
    """What could not be looked at, or is only worth knowing."""


class CheckName(StrEnum):
    """Every check there is, by the name that `--only` and `--skip` take."""

    REFERENCE = "reference"
    STABLE = "stable"
    IDLE = "idle"
    SEALED = "sealed"
    ANSWER = "answer"
    FORGERY = "forgery"
    MUTANTS = "mutants"
    SIZE = "size"
    REBUILD = "rebuild"
    VENDOR = "vendor"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found."""

    check: CheckName
    level: Level
    text: str
    """What is so, and what to do about it."""
    evidence: tuple[str, ...] = ()
    """Lines that show it: files, objects, output, attempts."""

    def record(self) -> dict[str, Any]:
        """The finding as data."""
        return {
            "check": str(self.check),
            "level": str(self.level),
            "text": self.text,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """What was seen of one task."""

    task: str
    folder: str
    checks: tuple[CheckName, ...]
    """Those that were made."""
    findings: tuple[Finding, ...]
    attempts: Mapping[str, str]
    """How each attempt ended, by its arm."""

    @property
    def proved(self) -> bool:
        """Nothing speaks against it."""
        return not any(finding.level is Level.ERROR for finding in self.findings)

    @property
    def problems(self) -> tuple[str, ...]:
        """The texts of what speaks against it."""
        return tuple(f.text for f in self.findings if f.level is Level.ERROR)

    def state_of(self, check: CheckName) -> str:
        """The weightiest level among a check's findings; `ok` where there is none."""
        found = {finding.level for finding in self.findings if finding.check is check}
        return next((str(level) for level in Level if level in found), "ok")

    def record(self) -> dict[str, Any]:
        """The task's report as data."""
        return {
            "task": self.task,
            "folder": self.folder,
            "proved": self.proved,
            "checks": {str(check): self.state_of(check) for check in self.checks},
            "findings": [finding.record() for finding in self.findings],
            "attempts": dict(self.attempts),
        }
