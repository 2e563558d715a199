"""What was seen in the images of a task."""

from __future__ import annotations

from dataclasses import dataclass

from rackbench.check.answer import Answer
from rackbench.check.layers import ImageFiles
from rackbench.check.repository import Repository


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """One image, and what became of it when it was built once more."""

    name: str
    """In a sentence: `the image`, `the verifier's image`."""
    files: ImageFiles
    size_bytes: int
    rebuilt: ImageFiles | None = None
    """Of the image built once more without a cache."""
    rebuild_problem: str = ""
    """Why it could not be built again."""
    problem: str = ""
    """Why it could not be read."""


@dataclass(frozen=True, slots=True)
class ImageLook:
    """The images of a task, looked through."""

    built: tuple[BuiltImage, ...]
    """The agent's own first."""
    repositories: tuple[Repository, ...]
    answers: tuple[Answer, ...]
    visible: tuple[str, ...]
    """Of the verifier's files, to the agent before it began."""
    left_out: tuple[str, ...]
    """What the reference changed, too large or too many to look for."""

    @property
    def files(self) -> ImageFiles:
        """What the agent finds."""
        return self.built[0].files

    @property
    def problem(self) -> str:
        """Why the agent's image could not be read."""
        return self.built[0].problem
