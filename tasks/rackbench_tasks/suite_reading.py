"""Reads the tasks of sources: which folders are tasks, which of them are taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from rackbench_tasks.files import read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats import TaskFormat
from rackbench_tasks.formats.lines import yaml_lines
from rackbench_tasks.problem import TaskError, one_line
from rackbench_tasks.sources import Places, Resolved, Source, SourceKind, resolve_source
from rackbench_tasks.sources.dataset import MANIFEST, Dataset, read_dataset
from rackbench_tasks.suite_file import SUFFIXES, SuiteFile, read_suite_file
from rackbench_tasks.suite_selection import Located, select, unique


@dataclass(slots=True)
class Reading:
    """What holds for all sources, and what was found so far."""

    formats: Sequence[TaskFormat]
    strict: bool
    host_env: Mapping[str, str]
    places: Places
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    open_files: list[Path] = field(default_factory=list)
    """Suite files that are being read, each named by the one before it."""

    def format_of(self, folder: Path) -> TaskFormat | None:
        """The format that a folder is a task of."""
        return next((known for known in self.formats if known.detect(folder)), None)


@dataclass(slots=True)
class _Selection:
    """Include and exclude of one source, and which patterns of them met a task."""

    source: Source
    where: str
    taken: int = 0
    unused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.unused = {*self.source.include, *self.source.exclude} - {"*"}

    def matches(self, *names: str) -> bool:
        """Whether a task of these names is wanted."""
        included = _matching(self.source.include, names)
        return bool(included) and not _matching(self.source.exclude, names)

    def takes(self, *names: str) -> bool:
        """The same, of a task that is there."""
        self.unused -= _matching((*self.source.include, *self.source.exclude), names)
        is_taken = self.matches(*names)
        self.taken += is_taken
        return is_taken

    def excludes(self, name: str) -> bool:
        """Whether a folder is left out by its name alone, so that it need not be readable."""
        used = _matching(self.source.exclude, (name,))
        self.unused -= used
        return bool(used)

    def report(self, findings: Findings) -> None:
        for pattern in self.source.include:
            if pattern in self.unused:
                findings.problem(f"include {pattern!r} matches no task of {self.where}")
        for pattern in self.source.exclude:
            if pattern in self.unused:
                findings.warning(f"exclude {pattern!r} matches no task of {self.where}")
        if not self.taken and not self.unused.intersection(self.source.include):
            findings.problem(f"no task of {self.where} is left after include and exclude")


def _matching(patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    names = tuple(names)
    return {pattern for pattern in patterns if any(fnmatchcase(name, pattern) for name in names)}


def read_file(
    path: Path, reading: Reading, *, within: Resolved | None, to_pin: bool = False
) -> tuple[SuiteFile, list[Located]]:
    """A suite file and its tasks.

    `within` is what the file itself was taken from; `to_pin` leaves its pins and its sample
    aside. Raises TaskError where the file is no suite; what is wrong with its tasks is noted.
    """
    if path in reading.open_files:
        raise TaskError(f"{path}: names itself by way of {reading.open_files[-1]}")
    written = read_suite_file(path)
    lines = yaml_lines(read_text(path))
    findings = Findings(str(path), reading.problems, reading.warnings, lines)
    reading.open_files.append(path)
    located = read_sources(
        written.tasks, reading, beside=path.parent, findings=findings, within=within
    )
    reading.open_files.pop()
    if to_pin:
        written = written.model_copy(update={"digests": None, "sample": None})
    if not reading.problems:
        located = select(located, written, findings)
    return written, located


def read_sources(
    sources: Iterable[Source],
    reading: Reading,
    *,
    beside: Path,
    findings: Findings,
    within: Resolved | None = None,
) -> list[Located]:
    """The tasks of sources, in their order; what is wrong is noted."""
    located: list[Located] = []
    for source in sources:
        try:
            resolved = resolve_source(source, beside=beside, places=reading.places, within=within)
            located += _tasks_of(resolved, source, reading, findings)
        except TaskError as error:
            reading.problems.extend(error.problems)
        except OSError as error:
            where = error.filename or source.label
            reading.problems.append(f"{where}: cannot be read: {error.strerror}")
    return unique(located, findings)


def _tasks_of(
    resolved: Resolved, source: Source, reading: Reading, findings: Findings
) -> list[Located]:
    target = resolved.target
    selection = _Selection(source, _shown(target, resolved))
    if target.is_file() and target.suffix in SUFFIXES:
        _, located = read_file(target, reading, within=resolved)
        located = [found for found in located if selection.takes(found.task.name, found.task.id)]
        if not reading.problems:
            selection.report(findings)
        return located
    if target.is_file() and target.name == MANIFEST:
        target = target.parent
    target = _unwrapped(target, resolved, reading)
    dataset = read_dataset(target) if (target / MANIFEST).is_file() else None
    located = _tasks_in(replace(resolved, target=target), selection, reading, dataset)
    selection.report(findings)
    return located


def _shown(path: Path, resolved: Resolved) -> str:
    if not resolved.is_fetched:
        return str(path)
    return str(replace(resolved.origin, path=_relative(path, resolved)))


def _relative(path: Path, resolved: Resolved) -> str:
    relative = path.relative_to(resolved.root).as_posix()
    return "" if relative == "." else relative


def _unwrapped(folder: Path, resolved: Resolved, reading: Reading) -> Path:
    """The folder that holds the tasks of an archive, where all of it lies in one folder."""
    if resolved.origin.kind is not SourceKind.ARCHIVE or folder != resolved.root:
        return folder
    entries = list(folder.iterdir())
    if len(entries) != 1 or not entries[0].is_dir() or reading.format_of(folder):
        return folder
    return folder if reading.format_of(entries[0]) else entries[0]


def _tasks_in(
    resolved: Resolved, selection: _Selection, reading: Reading, dataset: Dataset | None
) -> list[Located]:
    located: list[Located] = []
    not_meant: list[TaskError] = []  # by their folders' names; only a readable task tells its own
    missing = dict(dataset.digests) if dataset else {}
    for folder, task_format in _candidates(resolved, reading, selection):
        if selection.excludes(folder.name):
            continue
        _stay_within(folder, resolved)
        try:
            task = task_format.load(folder, strict=reading.strict, host_env=reading.host_env)
        except TaskError as error:
            if selection.matches(folder.name):
                _refuse([error], selection, reading)
            else:
                not_meant.append(error)
            continue
        origin = replace(resolved.origin, path=_relative(folder, resolved))
        if dataset:
            origin = replace(origin, dataset=dataset.label)
        names = (folder.name, task.name, task.id)
        listed = dataset.name_of(task) if dataset else task.id
        if dataset and listed:
            missing.pop(listed, None)
            origin = replace(origin, dataset=dataset.label)
        if not listed:
            reading.warnings.append(one_line(f"{folder}: is not listed in {MANIFEST}; left out"))
        elif selection.takes(*names):
            located.append(Located(task, origin))
    _tell(not_meant, selection, reading)
    if dataset:
        reading.problems += dataset.problems(found.task for found in located)
        reading.problems += [
            f"{dataset.file}: lists {name!r}, and no folder beside it is that task"
            for name in missing
            if selection.matches(name, name.rpartition("/")[2])
        ]
    return located


def _refuse(errors: Iterable[TaskError], selection: _Selection, reading: Reading) -> None:
    """Note tasks as problems: left out in silence they would make every solve rate look better."""
    reading.problems.extend(problem for error in errors for problem in error.problems)
    selection.unused.clear()
    selection.taken += 1


def _tell(not_meant: Sequence[TaskError], selection: _Selection, reading: Reading) -> None:
    """Note broken tasks that include does not name by their folders."""
    if not_meant and selection.unused.intersection(selection.source.include):
        _refuse(not_meant, selection, reading)  # one of them may be what is missing
    else:
        reading.warnings.extend(
            f"left out by include, and unreadable: {error.problems[0]}" for error in not_meant
        )


def _stay_within(folder: Path, resolved: Resolved) -> None:
    """Raise TaskError for a link by which a fetched source names a folder of this machine."""
    if resolved.is_fetched and not folder.resolve().is_relative_to(resolved.root.resolve()):
        raise TaskError(f"{_shown(folder, resolved)}: links to {folder.resolve()}, outside of it")


def _candidates(
    resolved: Resolved, reading: Reading, selection: _Selection
) -> list[tuple[Path, TaskFormat]]:
    """The task that a folder is, or the tasks right below it, by name."""
    folder, shown = resolved.target, selection.where
    if not folder.exists():
        raise TaskError(f"there is no {shown}")
    if not folder.is_dir():
        raise TaskError(f"{shown}: expected a task's folder, or a folder of tasks")
    if task_format := reading.format_of(folder):
        return [(folder, task_format)]
    below = sorted(
        entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    )
    found: list[tuple[Path, TaskFormat]] = []
    for entry in below:
        if task_format := reading.format_of(entry):
            found.append((entry, task_format))
        elif not entry.name.startswith("_"):
            reading.warnings.append(
                one_line(f"{entry}: is no task (no task.toml), and is left out")
            )
    if not found:
        raise TaskError(_nothing_in(shown, below, reading))
    return found


def _nothing_in(shown: str, below: Iterable[Path], reading: Reading) -> str:
    for entry in below:
        if any(reading.format_of(path) for path in entry.iterdir()):
            return f"{shown}: holds no task; did you mean {entry}?"
    known = ", ".join(task_format.name for task_format in reading.formats)
    return f"{shown}: holds no task; expected folders with a task.toml (formats: {known})"
