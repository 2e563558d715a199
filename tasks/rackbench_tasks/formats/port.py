"""What a task format is, and which are installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import ClassVar, Protocol

from rackbench_tasks.model import Task
from rackbench_tasks.problem import TaskError

GROUP = "rackbench.task_formats"


class TaskFormat(Protocol):
    """Reads tasks written in one format; made without arguments."""

    name: ClassVar[str]

    def detect(self, folder: Path) -> bool:
        """Whether a folder claims to be a task of this format."""
        ...

    def load(self, folder: Path, *, strict: bool, host_env: Mapping[str, str]) -> Task:
        """Read a task.

        `strict` makes unknown keys errors; `host_env` is what `${VAR}` is taken from.
        Raises TaskError with every problem found.
        """
        ...


def installed_formats() -> tuple[TaskFormat, ...]:
    """One of each installed format, by name.

    Raises TaskError where two packages offer one name, or a format cannot be imported.
    """
    points = {(point.name, point.value): point for point in entry_points(group=GROUP)}
    names = [name for name, _ in points]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        offers = " and ".join(sorted(value for name, value in points if name == twice[0]))
        raise TaskError(f"task format {twice[0]!r} is offered twice, by {offers}; uninstall one")
    if not points:
        raise TaskError(f"no task format is installed (entry points {GROUP}); reinstall rackbench")
    return tuple(_load(points[key]) for key in sorted(points))


def _load(point: EntryPoint) -> TaskFormat:
    try:
        made: TaskFormat = point.load()()
    except (ImportError, AttributeError) as error:
        raise TaskError(f"task format {point.name!r} ({point.value}): {error}") from error
    return made
