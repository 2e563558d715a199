"""Suites: named, ordered selections of tasks from one or more sources."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rackbench_tasks.model import Task, TaskError

_FORMATS = "rackbench.task_formats"


class TaskFormat(Protocol):
    """A plug-in of the group `rackbench.task_formats`."""

    name: str

    def detect(self, folder: Path) -> bool:
        """Whether a folder is a task of this format."""
        ...

    def load(self, folder: Path, *, strict: bool, host_env: Mapping[str, str]) -> Task:
        """Read a task. Raises TaskError."""
        ...


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks in their order."""

    name: str
    tasks: tuple[Task, ...]
    warnings: tuple[str, ...] = ()


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Source(_Model):
    path: Path
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


class _Sample(_Model):
    count: int = Field(ge=1)
    seed: int = 0


class _SuiteFile(_Model):
    name: str | None = None
    description: str = ""
    tasks: tuple[_Source, ...] = Field(min_length=1)
    order: tuple[str, ...] = ()
    sample: _Sample | None = None


def load_suite(path: Path, *, strict: bool, host_env: Mapping[str, str]) -> Suite:
    """A suite file, a folder of task folders, or one task folder.

    Raises TaskError with all problems of all tasks.
    """
    if path.is_file():
        return _load_file(path, strict=strict, host_env=host_env)
    if not path.is_dir():
        raise TaskError(f"there is no task, folder of tasks or suite file {path}")
    folders = _task_folders(path)
    if not folders:
        raise TaskError(f"{path} holds no task: no folder in it has a task.toml")
    return Suite(path.name, _load_all(folders, strict=strict, host_env=host_env))


def _load_file(path: Path, *, strict: bool, host_env: Mapping[str, str]) -> Suite:
    try:
        wanted = _SuiteFile.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise TaskError(f"suite file {path}: {error}") from error
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise TaskError(*(f"suite file {path}: {line}" for line in lines)) from error
    tasks: list[Task] = []
    for source in wanted.tasks:
        found = load_suite(path.parent / source.path, strict=strict, host_env=host_env).tasks
        tasks += [task for task in found if _chosen(task, source)]
    _no_twins(tasks)
    return Suite(wanted.name or path.stem, tuple(_sampled(_ordered(tasks, wanted, path), wanted)))


def _task_folders(path: Path) -> list[tuple[TaskFormat, Path]]:
    formats: list[TaskFormat] = [point.load()() for point in entry_points(group=_FORMATS)]
    candidates = [path, *sorted(entry for entry in path.iterdir() if entry.is_dir())]
    found = [(f, folder) for folder in candidates for f in formats if f.detect(folder)]
    return found[:1] if found and found[0][1] == path else found


def _load_all(
    folders: Sequence[tuple[TaskFormat, Path]], *, strict: bool, host_env: Mapping[str, str]
) -> tuple[Task, ...]:
    tasks: list[Task] = []
    problems: list[str] = []
    for form, folder in folders:
        try:
            tasks.append(form.load(folder.resolve(), strict=strict, host_env=host_env))
        except TaskError as error:
            problems += error.problems
    if problems:
        raise TaskError(*problems)
    _no_twins(tasks)
    return tuple(tasks)


def _no_twins(tasks: Sequence[Task]) -> None:
    seen: dict[str, Task] = {}
    for task in tasks:
        if twin := seen.get(task.id):
            raise TaskError(f"two tasks have the id {task.id}: {twin.folder} and {task.folder}")
        seen[task.id] = task


def _chosen(task: Task, source: _Source) -> bool:
    def matches(patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatch(n, p) for p in patterns for n in (task.name, task.id))

    return matches(source.include) and not matches(source.exclude)


def _ordered(tasks: Sequence[Task], wanted: _SuiteFile, path: Path) -> list[Task]:
    by_name = {task.name: task for task in tasks}
    if unknown := [name for name in wanted.order if name not in by_name]:
        raise TaskError(f"suite file {path}: order names no chosen task: {', '.join(unknown)}")
    first = [by_name[name] for name in wanted.order]
    return first + [task for task in tasks if task not in first]


def _sampled(tasks: list[Task], wanted: _SuiteFile) -> list[Task]:
    if wanted.sample is None:
        return tasks
    count = min(wanted.sample.count, len(tasks))
    chosen = random.Random(wanted.sample.seed).sample(range(len(tasks)), count)  # noqa: S311
    return [tasks[position] for position in sorted(chosen)]
