"""What was seen in the image of a task."""

from __future__ import annotations

from dataclasses import dataclass

from rackbench.check.answer import Answer
from rackbench.check.layers import ImageFiles
from rackbench.check.repository import Repository


@dataclass(frozen=True, slots=True)
class ImageLook:
    """An image of a task, looked through."""

    files: ImageFiles
    repositories: tuple[Repository, ...]
    answers: tuple[Answer, ...]
    visible: tuple[str, ...]
    """Of the verifier's files, to the agent before it began."""
    left_out: tuple[str, ...]
    """What the reference changed, too large or too many to look for."""
    size_bytes: int
    rebuilt: ImageFiles | None = None
    """Of the image built once more without a cache."""
    rebuild_problem: str = ""
    """Why it could not be built again."""
    problem: str = ""
    """Why it could not be read."""
