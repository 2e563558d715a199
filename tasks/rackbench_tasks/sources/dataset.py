"""dataset.toml, Harbor's list of the tasks of a dataset with the digest of each."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, ValidationError

from rackbench_tasks.files import read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.lines import toml_lines
from rackbench_tasks.model import Task
from rackbench_tasks.problem import TaskError, located_problems
from rackbench_tasks.sources.harbor_digest import harbor_digest
from rackbench_tasks.sources.source import Digest, Text, Written

MANIFEST = "dataset.toml"


def _is_file_name(value: str) -> str:
    if "/" in value or "\\" in value or value in {".", ".."}:
        raise ValueError("a file's name without folders")
    return value


class _Lenient(Written):
    model_config = ConfigDict(extra="ignore")  # keys of later versions do not move a digest


class _Info(_Lenient):
    name: Text
    version: str | None = None


class _Task(_Lenient):
    name: Text
    digest: Digest


class _File(_Lenient):
    path: Annotated[Text, AfterValidator(_is_file_name)]
    digest: Digest | None = None


class _Manifest(_Lenient):
    dataset: _Info
    tasks: tuple[_Task, ...]
    files: tuple[_File, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """The tasks that a dataset lists, and what each must be."""

    file: Path
    label: str
    """Its name, with `@version` where it has one."""
    digests: Mapping[str, str]
    """By name of the task, in the order of the list; Harbor's digests, not ours."""

    def name_of(self, task: Task) -> str | None:
        """The name that a task is listed by; None where it is not."""
        if task.id in self.digests:
            return task.id
        # A task without a name of its own is called after its folder.
        short = {name.rpartition("/")[2]: name for name in self.digests}
        return short.get(task.folder.name) if task.id == task.name else None

    def problems(self, tasks: Iterable[Task]) -> list[str]:
        """One line for each listed task that is not what the dataset says."""
        problems = []
        for task in tasks:
            name = self.name_of(task)
            found = harbor_digest(task.folder)
            if name and found != self.digests[name]:
                problems.append(
                    f"{self.file}: task {name!r} has changed: its digest is {found}, and "
                    f"{self.digests[name]} is listed ({task.folder})"
                )
        return problems


def read_dataset(folder: Path) -> Dataset:
    """Read a dataset's list, and check the digests of its own files.

    Raises TaskError with every problem found.
    """
    path = folder / MANIFEST
    text = read_text(path)
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TaskError(f"{path}: is not TOML: {error}") from error
    manifest = _manifest(path, text, values)
    problems = [*_twice(path, manifest), *_changed_files(path, manifest)]
    if problems:
        raise TaskError(*problems)
    version = f"@{manifest.dataset.version}" if manifest.dataset.version else ""
    return Dataset(
        file=path,
        label=manifest.dataset.name + version,
        digests={task.name: task.digest for task in manifest.tasks},
    )


def _manifest(path: Path, text: str, values: dict[str, Any]) -> _Manifest:
    try:
        return _Manifest.model_validate(values)
    except ValidationError as error:
        findings = Findings(str(path), lines=toml_lines(text))
        for key, problem in located_problems(error):
            findings.problem(problem, key=key)
        findings.raise_problems()
        raise


def _twice(path: Path, manifest: _Manifest) -> list[str]:
    seen: dict[str, str] = {}
    return [
        f"{path}: lists {task.name!r} with two digests, {seen[task.name]} and {task.digest}"
        for task in manifest.tasks
        if seen.setdefault(task.name, task.digest) != task.digest
    ]


def _changed_files(path: Path, manifest: _Manifest) -> list[str]:
    problems = []
    for file in manifest.files:
        try:
            content = (path.parent / file.path).read_bytes()
        except OSError as error:
            problems.append(f"{path}: lists the file {file.path!r}: {error.strerror}")
            continue
        found = "sha256:" + hashlib.sha256(content).hexdigest()
        if file.digest and found != file.digest:
            problems.append(
                f"{path}: the file {file.path!r} has changed: its digest is {found}, and "
                f"{file.digest} is listed"
            )
    return problems
