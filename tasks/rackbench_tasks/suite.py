"""A suite: a named, ordered selection of tasks from one or more sources."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from rackbench_tasks.files import absolute
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats import installed_formats
from rackbench_tasks.model import Task
from rackbench_tasks.problem import TaskError
from rackbench_tasks.sources import Origin, Places, Source, machine_places
from rackbench_tasks.sources.archive import is_archive
from rackbench_tasks.sources.dataset import MANIFEST
from rackbench_tasks.suite_file import SUFFIXES
from rackbench_tasks.suite_reading import Reading, read_file, read_sources
from rackbench_tasks.suite_selection import Located


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks to run, in their order."""

    name: str
    tasks: tuple[Task, ...]
    digest: str
    """`sha256:…` over ids and digests of the tasks, in order."""
    warnings: tuple[str, ...] = ()
    """About the selection; each task has its own."""
    description: str = ""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """By id of the task."""


def load_suite(
    path: Path,
    *,
    strict: bool,
    host_env: Mapping[str, str],
    places: Places | None = None,
    to_pin: bool = False,
) -> Suite:
    """Load a suite file, an archive, a folder of task folders, or one task folder.

    `strict` makes unknown keys of tasks errors; `places` says where fetched sources are kept;
    `to_pin` takes all tasks that `digests` of the suite file concerns, whatever it says of them.
    Raises TaskError with the problems of all tasks.
    """
    path = absolute(path)
    reading = Reading(installed_formats(), strict, host_env, places or machine_places())
    findings = Findings(str(path), reading.problems, reading.warnings)
    if _is_suite_file(path):
        written, located = read_file(path, reading, within=None, to_pin=to_pin)
        name, description = written.name or path.stem, written.description
    else:
        source = Source(path=str(path))
        located = read_sources((source,), reading, beside=path.parent, findings=findings)
        name, description = path.name.partition(".tar")[0].removesuffix(".zip"), ""
    findings.raise_problems()
    return _suite(located, name, description, warnings=reading.warnings)


def _is_suite_file(path: Path) -> bool:
    try:
        is_file = path.is_file()
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error.strerror}") from error
    if is_file and path.suffix not in SUFFIXES and path.name != MANIFEST and not is_archive(path):
        raise TaskError(
            f"{path}: expected a suite file (.yaml), an archive, a folder of tasks, "
            "or a task's folder"
        )
    return is_file and path.suffix in SUFFIXES


def load_sources(
    sources: Sequence[Source],
    *,
    beside: Path,
    strict: bool,
    host_env: Mapping[str, str],
    places: Places | None = None,
) -> Suite:
    """Load tasks of several sources as one suite, in the order of the sources.

    `beside` is the folder that relative paths start from; the suite is called after it.
    Raises TaskError with the problems of all tasks, two of one id among them.
    """
    beside = absolute(beside)
    reading = Reading(installed_formats(), strict, host_env, places or machine_places())
    findings = Findings("tasks", reading.problems, reading.warnings)
    located = read_sources(sources, reading, beside=beside, findings=findings)
    findings.raise_problems()
    return _suite(located, beside.name, "", warnings=reading.warnings)


def pinned(suite: Suite) -> str:
    """YAML for a suite file that pins every task to what it is now."""
    return yaml.safe_dump(
        {"digests": {task.id: task.digest for task in suite.tasks}}, sort_keys=False, width=200
    )


def _suite(
    located: Sequence[Located], name: str, description: str, *, warnings: Iterable[str]
) -> Suite:
    tasks = tuple(found.task for found in located)
    lines = "".join(f"{task.id} {task.digest}\n" for task in tasks)
    return Suite(
        name=name,
        tasks=tasks,
        digest="sha256:" + hashlib.sha256(lines.encode()).hexdigest(),
        warnings=tuple(dict.fromkeys(warnings)),
        description=description,
        origins={found.task.id: found.origin for found in located},
    )
