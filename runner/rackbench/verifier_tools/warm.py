"""Filling the tool folder: once, while online or from a mirror; again for what is new."""

from __future__ import annotations

import fcntl
import importlib.resources
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rackbench.errors import PrerequisiteError
from rackbench.verifier_tools.index import (
    Index,
    Python,
    Wanted,
    folder_digest,
    list_files,
    read_index,
    write_index,
)
from rackbench.verifier_tools.programs import add_programs
from rackbench.verifier_tools.pythons import add_python, fetch_python
from rackbench.verifier_tools.script import Request
from rackbench.verifier_tools.wants import Wants, wants_of
from rackbench.verifier_tools.wheels import fetch_uv, fetch_wheels
from rackbench_tasks import Suite

Report = Callable[[str], None]

_COMMON = (
    "pytest", "pytest-json-ctrf", "pytest-timeout", "requests", "pip", "setuptools", "wheel",
    # What other platforms and older Pythons need: `uv add` resolves for all of them.
    "colorama", "exceptiongroup", "tomli", "typing-extensions",
)  # fmt: skip
_COMMON_PYTHONS = ("3.11", "3.12", "3.13")
_PROGRAMS = ("curl", "wget")
_ANSWERED_BY_STAND_INS = {"curl", "wget", "ca-certificates", "python3", "python3-pip"}
_SHIMS = {
    "run": ("run",),
    "fetch": ("bin/curl", "bin/wget"),
    "apt": ("bin/apt-get", "bin/apt"),
    "real.sh": ("lib/real.sh",),
    "install-uv.sh": ("lib/install-uv.sh",),
    "uv.toml": ("lib/uv.toml",),
}


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a verifier asks for and that the tools do not hold."""

    what: str
    why: str
    tasks: tuple[str, ...]
    """That ask for it; none where the user did."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What is in the folder now."""

    folder: Path
    digest: str
    bytes: int
    uv: str
    pythons: tuple[str, ...]
    packages: int
    missing: tuple[Missing, ...]
    notes: tuple[Missing, ...]
    """What an image must hold, if the verifiers that ask for it are to work."""


@dataclass(slots=True)
class _Work:
    folder: Path
    report: Report
    known: Index | None
    pythons: dict[str, Python] = field(default_factory=dict)
    answered: dict[tuple[Request, str], Wanted] = field(default_factory=dict)
    failed: dict[tuple[Request, str], str] = field(default_factory=dict)
    missing: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def miss(self, what: str, why: str, task: str | None) -> None:
        tasks = self.missing.setdefault((what, why), [])
        if task and task not in tasks:
            tasks.append(task)


def warm_tools(
    suite: Suite,
    folder: Path,
    *,
    pythons: Sequence[Path] = (),
    packages: Sequence[str] = (),
    without: Sequence[str] = (),
    report: Report,
) -> Warmed:
    """Put everything into a folder that the verifiers of a suite would fetch, as far as can be.

    What is there already is kept. Requests that name a package of `without` are not answered. The
    index is written last; until then the folder is what it was.
    Raises PrerequisiteError where not even uv can be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wants = [wants_of(task) for task in suite.tasks]
    with _alone(folder, report=report):
        known = read_index(folder)
        work = _Work(folder, report, known)
        if known:
            work.answered = {_key(wanted): wanted for wanted in known.answered}
        _write_shims(folder)
        uv = fetch_uv(folder / "uv")
        for name in add_programs(_PROGRAMS, folder / "programs"):
            report(f"this machine has no {name} to lend: verifiers get it for uv's installer alone")
        _add_pythons(work, pythons, wants)
        versions = _versions(work, wants)
        for names in (_COMMON, *((name,) for name in packages)):
            _answer(work, Request(names), versions, must=(), task=None)
        for want in wants:
            for request in want.requests:
                if left_out := _named(request, without):
                    work.miss(left_out, "left out by --without", want.task)
                    continue
                must = _must(request, want)
                lent = versions if not must else [] if request.python else sorted(_minors(work))
                _answer(work, request, [*must, *lent], must=must, task=want.task)
        return _finish(work, uv, f"{suite.name} {suite.digest}", wants)


def _add_pythons(work: _Work, prefixes: Sequence[Path], wants: Sequence[Wants]) -> None:
    there = work.folder / "pythons"
    if work.known:
        work.pythons |= {n: p for n, p in work.known.pythons.items() if (there / n).is_dir()}
    for prefix in prefixes:
        name, python = add_python(prefix.expanduser().absolute(), there, report=work.report)
        work.pythons[name] = python
    for version in sorted({version for want in wants for version in want.pythons}):
        askers = [want for want in wants if version in want.pythons]
        # The image's own Python goes first, where it is the one that is named.
        askers = [want for want in askers if want.image_python != version]
        if not askers or version in _minors(work):
            continue
        problem = fetch_python(work.folder / "uv" / "uv", version, there, report=work.report)
        if problem is None:
            work.pythons |= _installed_by_uv(there, version)
        else:
            why = f"{problem}; give one of this machine: --python PREFIX"
            for want in askers:
                work.miss(f"Python {version}", why, want.task)


def _installed_by_uv(pythons: Path, version: str) -> dict[str, Python]:
    return {
        path.name: Python(version=path.name.split("-")[1], source="uv", glibc="2.17")
        for path in pythons.glob(f"cpython-{version}.*")
        if path.is_dir() and not path.is_symlink()
    }


def _answer(
    work: _Work,
    request: Request,
    versions: Sequence[str],
    *,
    must: Sequence[str],
    task: str | None,
) -> None:
    """Fetch what is asked for, for each version; those that must be are missed, else any will do."""
    problems: dict[str, str] = {}
    for version in dict.fromkeys(versions):
        key = (Request(request.requirements, None, request.index), version)
        wanted = work.answered.get(key)
        if wanted and all((work.folder / "wheels" / name).exists() for name in wanted.wheels):
            continue
        if key not in work.failed:
            work.report(f"fetching {' '.join(request.requirements)} for Python {version}")
            fetched = fetch_wheels(request, work.folder / "wheels", python=version)
            if not fetched.problem:
                work.answered[key] = Wanted(
                    requirements=request.requirements,
                    python=version,
                    index=request.index,
                    wheels=fetched.wheels,
                )
                continue
            work.failed[key] = f"{fetched.problem} (Python {version})"
        work.answered.pop(key, None)
        problems[version] = work.failed[key]
    missed = set(must) & set(problems) if must else set(versions) <= set(problems)
    if missed:
        work.miss(" ".join(request.requirements), next(iter(problems.values())), task)


def _versions(work: _Work, wants: Sequence[Wants]) -> list[str]:
    found = {*_COMMON_PYTHONS, *_minors(work)}
    for want in wants:
        found |= want.pythons | ({want.image_python} if want.image_python else set())
    return sorted(found, key=lambda version: int(version.split(".")[1]))


def _must(request: Request, want: Wants) -> list[str]:
    """The Pythons that a request is for, where that is known."""
    if request.python:
        return [request.python]
    if want.pythons:
        return sorted(want.pythons)
    return [want.image_python] if want.image_python else []


def _named(request: Request, names: Sequence[str]) -> str | None:
    """The first of some packages that a request names."""
    asked = {_bare(requirement) for requirement in request.requirements}
    return next((name for name in names if _bare(name) in asked), None)


def _bare(requirement: str) -> str:
    name = re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def _minors(work: _Work) -> set[str]:
    return {".".join(python.version.split(".")[:2]) for python in work.pythons.values()}


def _finish(work: _Work, uv: str, made_from: str, wants: Sequence[Wants]) -> Warmed:
    files = list_files(work.folder, known=work.known)
    wheels = {path.removeprefix("wheels/"): f for path, f in files.items() if _is_wheel(path)}
    sources = work.known.made_from if work.known else ()
    index = Index(
        digest=folder_digest(files),
        uv=uv,
        pythons=work.pythons,
        packages={name: file.sha256 for name, file in wheels.items()},
        answered=tuple(work.answered.values()),
        made_from=tuple(sorted({*sources, made_from})),
        files=files,
    )
    write_index(work.folder, index)
    return Warmed(
        folder=work.folder.absolute(),
        digest=index.digest,
        bytes=sum(file.bytes for file in files.values()),
        uv=uv,
        pythons=tuple(sorted(python.version for python in work.pythons.values())),
        packages=len(wheels),
        missing=tuple(Missing(*key, tuple(tasks)) for key, tasks in work.missing.items()),
        notes=_notes(wants),
    )


def _notes(wants: Sequence[Wants]) -> tuple[Missing, ...]:
    notes: dict[tuple[str, str], list[str]] = {}
    for want in wants:
        for package in want.system_packages:
            if package.split("=")[0] not in _ANSWERED_BY_STAND_INS:
                key = (package, "a package of the system: its image must hold it")
                notes.setdefault(key, []).append(want.task)
        for command in want.others:
            notes.setdefault((command, "not among what the tools can hold"), []).append(want.task)
    return tuple(Missing(*key, tuple(tasks)) for key, tasks in notes.items())


def _write_shims(folder: Path) -> None:
    source = importlib.resources.files("rackbench.verifier_tools") / "shims"
    for name, places in _SHIMS.items():
        content = (source / name).read_bytes()
        for place in places:
            target = folder / place
            target.parent.mkdir(exist_ok=True)
            if target.exists() and target.read_bytes() == content:
                continue
            # Replaced, never rewritten: attempts may hold links to the old one.
            unfinished = target.with_name(f".{target.name}")
            unfinished.write_bytes(content)
            unfinished.chmod(0o644 if "lib/" in place else 0o755)
            unfinished.replace(target)


def _key(wanted: Wanted) -> tuple[Request, str]:
    return Request(wanted.requirements, None, wanted.index), wanted.python


def _is_wheel(path: str) -> bool:
    return path.startswith("wheels/") and path.endswith(".whl")


@contextmanager
def _alone(folder: Path, *, report: Report) -> Iterator[None]:
    """One at a time per folder; the others wait and then find most of it done."""
    try:
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise PrerequisiteError(
            f"{folder} cannot be written: {error.strerror}; choose another with --to FOLDER"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another command that fills {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
