"""A suite: a named, ordered selection of tasks from one or more sources."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from rackbench_tasks.files import absolute
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats import TaskFormat, installed_formats
from rackbench_tasks.keys import did_you_mean
from rackbench_tasks.model import Task
from rackbench_tasks.problem import TaskError, one_line
from rackbench_tasks.suite_file import Sample, Source, SuiteFile, read_suite_file

_SUITE_SUFFIXES = (".yaml", ".yml")


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


@dataclass(slots=True)
class _Loading:
    """What has been read so far."""

    formats: Sequence[TaskFormat]
    strict: bool
    host_env: Mapping[str, str]
    findings: Findings
    tasks: dict[str, Task] = field(default_factory=dict)


def load_suite(path: Path, *, strict: bool, host_env: Mapping[str, str]) -> Suite:
    """Load a suite file, a folder of task folders, or one task folder.

    `strict` makes unknown keys of tasks errors. Raises TaskError with the problems of all tasks.
    """
    path = absolute(path)
    loading = _Loading(installed_formats(), strict, host_env, Findings(str(path)))
    try:
        return _load(path, loading)
    except OSError as error:
        raise TaskError(f"{error.filename or path}: cannot be read: {error.strerror}") from error


def _load(path: Path, loading: _Loading) -> Suite:
    is_file, findings = path.is_file(), loading.findings
    if is_file and path.suffix not in _SUITE_SUFFIXES:
        raise TaskError(
            f"{path}: expected a suite file (.yaml), a folder of tasks, or a task's folder"
        )
    written = read_suite_file(path) if is_file else SuiteFile(tasks=(Source(path=str(path)),))
    for source in written.tasks:
        _load_source(absolute(path.parent / source.path), source, loading)
    findings.raise_problems()
    tasks = _ordered(list(loading.tasks.values()), written.order, findings)
    tasks = _sampled(tasks, written.sample, findings)
    findings.raise_problems()
    return Suite(
        name=written.name or (path.stem if is_file else path.name),
        tasks=tuple(tasks),
        digest=_digest(tasks),
        warnings=tuple(findings.warnings),
        description=written.description,
    )


def _load_source(folder: Path, source: Source, loading: _Loading) -> None:
    try:
        candidates = _candidates(folder, loading)
    except TaskError as error:
        loading.findings.problems.extend(error.problems)
        return
    taken = 0
    unused = {*source.include, *source.exclude} - {"*"}
    for candidate, task_format in candidates:
        if used := _matching(source.exclude, (candidate.name,)):
            unused -= used
            continue
        try:
            task = task_format.load(candidate, strict=loading.strict, host_env=loading.host_env)
        except TaskError as error:
            # Left out in silence, a broken task would make every solve rate look better.
            loading.findings.problems.extend(error.problems)
            unused.clear()
            taken += 1
            continue
        names = (candidate.name, task.name, task.id)
        included, excluded = _matching(source.include, names), _matching(source.exclude, names)
        unused -= included | excluded
        if included and not excluded:
            taken += 1
            _add(task, loading)
    _report_selection(folder, source, unused, taken, loading.findings)


def _report_selection(
    folder: Path, source: Source, unused: set[str], taken: int, findings: Findings
) -> None:
    for pattern in source.include:
        if pattern in unused:
            findings.problem(f"include {pattern!r} matches no task of {folder}")
    for pattern in source.exclude:
        if pattern in unused:
            findings.warning(f"exclude {pattern!r} matches no task of {folder}")
    if not taken and not unused.intersection(source.include):
        findings.problem(f"no task of {folder} is left after include and exclude")


def _candidates(folder: Path, loading: _Loading) -> list[tuple[Path, TaskFormat]]:
    """The task that a folder is, or the tasks right below it, by name."""
    if not folder.exists():
        raise TaskError(f"there is no {folder}")
    if not folder.is_dir():
        raise TaskError(f"{folder}: expected a task's folder, or a folder of tasks")
    if task_format := _format_of(folder, loading.formats):
        return [(folder, task_format)]
    below = sorted(
        entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    )
    found: list[tuple[Path, TaskFormat]] = []
    for entry in below:
        if task_format := _format_of(entry, loading.formats):
            found.append((entry, task_format))
        elif not entry.name.startswith("_"):
            loading.findings.warnings.append(
                one_line(f"{entry}: is no task (no task.toml), and is left out")
            )
    if not found:
        raise TaskError(_nothing_in(folder, below, loading.formats))
    return found


def _nothing_in(folder: Path, below: Iterable[Path], formats: Sequence[TaskFormat]) -> str:
    for entry in below:
        if any(_format_of(path, formats) for path in entry.iterdir()):
            return f"{folder}: holds no task; did you mean {entry}?"
    known = ", ".join(task_format.name for task_format in formats)
    return f"{folder}: holds no task; expected folders with a task.toml (formats: {known})"


def _format_of(folder: Path, formats: Sequence[TaskFormat]) -> TaskFormat | None:
    return next((known for known in formats if known.detect(folder)), None)


def _matching(patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    names = tuple(names)
    return {pattern for pattern in patterns if any(fnmatchcase(name, pattern) for name in names)}


def _add(task: Task, loading: _Loading) -> None:
    twin = loading.tasks.setdefault(task.id, task)
    if twin is task:
        return
    if twin.folder == task.folder:
        loading.findings.problem(f"{task.folder} is taken twice; name it in one source alone")
    else:
        loading.findings.problem(
            f"two tasks have the id {task.id!r}: {twin.folder} and {task.folder}; "
            "exclude one, or give it a [task] name of its own"
        )


def _ordered(tasks: list[Task], order: Sequence[str], findings: Findings) -> list[Task]:
    """Tasks as named first, the others behind in the order of their sources."""
    named = {name: task for task in tasks for name in (task.name, task.id)}
    first: list[Task] = []
    for name in order:
        task = named.get(name)
        if task is None:
            findings.problem(f"order names {name!r}, which is no task; {did_you_mean(name, named)}")
        elif any(task is other for other in first):
            findings.problem(f"order names {name!r}, which has its place already")
        else:
            first.append(task)
    placed = {task.id for task in first}
    return first + [task for task in tasks if task.id not in placed]


def _sampled(tasks: list[Task], sample: Sample | None, findings: Findings) -> list[Task]:
    if sample is None:
        return tasks
    if sample.count > len(tasks):
        findings.problem(f"sample wants {sample.count} tasks, and there are {len(tasks)}")

    def lot(task: Task) -> bytes:
        # Of seed and id alone: neither the order of sources nor Python's version moves it.
        return hashlib.sha256(f"{sample.seed}:{task.id}".encode()).digest()

    chosen = {task.id for task in sorted(tasks, key=lot)[: sample.count]}
    return [task for task in tasks if task.id in chosen]


def _digest(tasks: Iterable[Task]) -> str:
    lines = "".join(f"{task.id} {task.digest}\n" for task in tasks)
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()
