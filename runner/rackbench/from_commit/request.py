"""What is asked of the making of a task from a commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_BASE = "rackbench/base:1"
DEFAULT_WORKDIR = "/app"


@dataclass(frozen=True, slots=True)
class Request:
    """Everything about a task but its commit."""

    to: Path = Path()
    """The folder in which the task's own is made."""
    name: str | None = None
    """Of the task's folder; None: from the repository and the commit."""
    mainline: int | None = None
    """Of a merge, the parent that is the state before."""
    tests: tuple[str, ...] = ()
    """Files to run instead of those that the commit changed."""
    issue: Path | None = None
    """Text for the instruction, instead of the commit's message."""
    base: str | None = None
    """An image to work in."""
    dockerfile: Path | None = None
    """Of the repository before the fix, or of this machine."""
    workdir: str | None = None
    install: str | None = None
    """A command that makes the tests runnable, run when the image is built."""
    packages: tuple[str, ...] = ()
    """Python packages that the tests need, beside what the project says."""
    test_command: str | None = None
    """`{tests}` in it stands for the files to run."""
    leave_out_failing: bool = False
    """Whether tests that fail with the fix too are left out instead of refused."""


@dataclass(frozen=True, slots=True)
class Created:
    """A task that was made and proved."""

    folder: Path | None
    """None: proved, not kept."""
    commit: str
    subject: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    seconds: float
    """From beginning to end, image and proof in it."""
    notes: tuple[str, ...] = ()
