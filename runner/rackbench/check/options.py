"""What a check is asked for, and what a task itself allows."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rackbench.check.finding import CheckName
from rackbench.errors import UsageError
from rackbench_harnesses.settings import Settings, SettingsError, read_settings
from rackbench_tasks import Task

_BY_PROFILE = frozenset({CheckName.VENDOR})


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check tasks."""

    times: int = 3
    """Runs of the reference; all but the first are varied."""
    strict: bool = False
    """Unknown keys in tasks are errors."""
    checks: frozenset[CheckName] = frozenset(CheckName) - _BY_PROFILE
    max_image_mb: int | None = None
    """None: the task's own limit of disk, else the run file's default."""
    slots: int | None = None
    """Attempts at once; None: one per CPU core."""
    results: Path = Path("runs")
    overrides: tuple[str, ...] = ()
    """Of the run's settings, as `key=value`."""


class Allowances(Settings):
    """`[metadata.check]`: what a task says is meant to be so."""

    passes_idle: tuple[str, ...] = ()
    """Patterns of tests that pass though nothing was done."""
    reachable: tuple[str, ...] = ()
    """Patterns of places in the image where an answer may be found, since finding it is the task."""
    varies: tuple[str, ...] = ()
    """Patterns of files of the image that differ from build to build."""
    needs_network: tuple[str, ...] = ()
    """Hosts or tools that the verifier cannot do without."""


def chosen_checks(
    only: Collection[str], skip: Collection[str], *, vendor: bool
) -> frozenset[CheckName]:
    """The checks to make. Raises UsageError for a name that is none, and where none is left."""
    checks = _named(only) or frozenset(CheckName) - _BY_PROFILE
    checks = (checks | (_BY_PROFILE if vendor else frozenset())) - _named(skip)
    if not checks:
        raise UsageError("--only and --skip leave no check to make")
    return checks


def _named(names: Collection[str]) -> frozenset[CheckName]:
    known = [str(name) for name in CheckName]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is: {', '.join(known)}"
            raise UsageError(f"there is no check {name!r}; {hint}")
    return frozenset(map(CheckName, names))


def allowances_of(task: Task) -> Allowances:
    """What a task's metadata allow. Raises UsageError."""
    written = task.metadata.get("check", {})
    if not isinstance(written, dict):
        raise UsageError(f"{task.name}: [metadata] check must be a table, got {written!r}")
    try:
        return read_settings(Allowances, written)
    except SettingsError as error:
        raise UsageError(f"{task.name}: [metadata.check]: {error}") from error
