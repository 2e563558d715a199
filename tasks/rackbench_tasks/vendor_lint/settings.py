"""A task.toml, and in which line each of its keys stands."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rackbench_tasks.formats.lines import toml_lines
from rackbench_tasks.problem import shown

FILE = "task.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a task.toml says."""

    content: Mapping[str, Any]
    lines: Mapping[str, int]

    def where(self, key: str) -> str:
        """The line of a key, or of the nearest table above it."""
        while key:
            # Of an array of tables its entries have lines, and it has none.
            if line := self.lines.get(key) or self.lines.get(f"{key}.0"):
                return f"{FILE}:{line}"
            key = key.rpartition(".")[0]
        return FILE

    def get(self, key: str) -> Any:
        """A value by its path; None where it is missing."""
        value: Any = self.content
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                return None
            value = value[part]
        return value

    @property
    def artifacts(self) -> list[str]:
        """The paths that are taken to the verifier, as far as they make sense."""
        entries = self.get("artifacts")
        if not isinstance(entries, list):
            return []
        sources = (entry.get("source") if isinstance(entry, dict) else entry for entry in entries)
        return [source for source in sources if isinstance(source, str) and source]


def told(value: Any) -> str:
    """A value in words; None is a key that is not there."""
    return "missing" if value is None else shown(value)


def read_settings(text: str) -> Settings:
    """Read a task.toml.

    Raises ValueError.
    """
    return Settings(tomllib.loads(text), toml_lines(text))
