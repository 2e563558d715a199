"""Where a task came from, for the record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SourceKind(StrEnum):
    """What a source of tasks is."""

    FOLDER = "folder"
    ARCHIVE = "archive"
    GIT = "git"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the files of a task were taken from."""

    kind: SourceKind
    source: str
    """The folder, the archive, or the repository's address without credentials."""
    path: str = ""
    """Of the task inside the source; POSIX, empty where the source is the task."""
    ref: str | None = None
    """Of a repository, as it was asked for."""
    commit: str | None = None
    """Of a repository: what the ref was resolved to, in full."""
    archive_digest: str | None = None
    """`sha256:…` of an archive's own bytes."""
    dataset: str | None = None
    """Name of the dataset whose list the task stands in, with `@version` where it has one."""

    def __str__(self) -> str:
        """For people."""
        at = f" at {self.ref or self.commit}" if self.commit else ""
        return f"{self.source}{at}" + (f", {self.path}" if self.path else "")
