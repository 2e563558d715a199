"""The environment of a task: an image to start from, the state before the fix, what tests need."""

from __future__ import annotations

import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from rackbench.errors import UsageError
from rackbench.from_commit import dockerfile as lines_of
from rackbench.from_commit.cut import Cut, write_cut
from rackbench.from_commit.fix import Fix
from rackbench.from_commit.probe import Probed, probe
from rackbench.from_commit.python_project import PythonProject, normalised, read_project
from rackbench.from_commit.request import DEFAULT_BASE, DEFAULT_WORKDIR, Request
from rackbench.from_commit.wheels import Interpreter, download
from rackbench.sandbox.docker import DockerSandboxes
from rackbench_tasks import Build

_DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")


@dataclass(frozen=True, slots=True)
class Environment:
    """What was written, and what the verifier has to know of it."""

    workdir: str
    cut: Cut
    origin: str
    """What it was made from, for people."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Start:
    """What a task's Dockerfile begins with."""

    origin: str
    base: str | None = None
    dockerfile: str | None = None
    context: str | None = None
    """Folder of the repository that is the Dockerfile's context; `.` is all of it."""
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def write_environment(
    fix: Fix, request: Request, folder: Path, *, sandboxes: DockerSandboxes, by_pytest: bool
) -> Environment:
    """Fill a task's `environment` folder.

    Raises UsageError.
    """
    start = _start(fix, request)
    cut = await to_thread.run_sync(write_cut, fix, folder / lines_of.ARCHIVE)
    notes = [
        *start.notes,
        *(f"submodule {path}: its content is left out" for path in cut.submodules),
    ]
    if start.dockerfile is not None and start.context is not None:
        notes += await to_thread.run_sync(_write_context, folder, start.context)
    probed = await _probe(start, folder, sandboxes)
    workdir = request.workdir or (probed.workdir if probed.workdir not in ("", "/") else None)
    workdir = posixpath.normpath(workdir or DEFAULT_WORKDIR)
    lines = (
        lines_of.from_base(start.base, has_git=probed.has_git)
        if start.base
        else lines_of.on_top_of(start.dockerfile or "", has_git=probed.has_git)
    )
    project = read_project(fix.repository, fix.parent)
    automatic = by_pytest and start.dockerfile is None and not request.install
    if automatic or request.packages:
        if probed.interpreter is None:
            raise UsageError(f"{start.origin} has no python3, which the tests are run by")
        wanted = _wanted(project, probed) if automatic else ()
        lines += await to_thread.run_sync(
            _packages, fix, project, (*wanted, *request.packages), probed.interpreter, folder
        )
        if automatic:
            notes.append(f"packages of the tests: {project.tests_from or 'pytest alone'}")
    lines += lines_of.with_tree(workdir)
    if automatic and project.name:
        lines += lines_of.with_project(project.version)
    for command in (*start.commands, *([request.install] if request.install else ())):
        lines += lines_of.with_command(command)
    lines += lines_of.finished(probed.user, workdir)
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    return Environment(workdir, cut, start.origin, tuple(notes))


def _start(fix: Fix, request: Request) -> _Start:
    if request.base and request.dockerfile:
        raise UsageError("give either a base image or a Dockerfile")
    if request.base:
        return _Start(f"the image {request.base}", base=request.base)
    if request.dockerfile:
        return _own_dockerfile(fix, request.dockerfile)
    repository, parent = fix.repository, fix.parent
    for path in _DEVCONTAINERS:
        if (content := repository.content(parent, path)) is not None:
            return _devcontainer(fix, path, content)
    if repository.content(parent, "Dockerfile") is not None:
        return _own_dockerfile(fix, Path("Dockerfile"))
    return _Start(f"the image {DEFAULT_BASE}", base=DEFAULT_BASE)


def _own_dockerfile(fix: Fix, path: Path) -> _Start:
    content = fix.repository.content(fix.parent, path.as_posix())
    if content is not None:
        return _Start(f"the repository's {path}", dockerfile=content.decode(), context=".")
    if path.is_file():
        return _Start(f"the file {path.name}", dockerfile=path.read_text(), context=".")
    raise UsageError(f"there is no {path}, neither in the repository before the fix nor here")


def _devcontainer(fix: Fix, path: str, content: bytes) -> _Start:
    wanted = lines_of.read_devcontainer(content.decode(), posixpath.dirname(path) or ".")
    notes = tuple(f"`{key}` of {path} is left out" for key in wanted.left_out)
    origin = f"the repository's {path}"
    if wanted.dockerfile is None:
        return _Start(origin, base=wanted.image, commands=wanted.commands, notes=notes)
    own = fix.repository.content(fix.parent, wanted.dockerfile)
    if own is None:
        raise UsageError(f"{path} names {wanted.dockerfile}, which is not in the repository")
    return _Start(
        origin,
        dockerfile=own.decode(),
        context=wanted.context,
        commands=wanted.commands,
        notes=notes,
    )


async def _probe(start: _Start, folder: Path, sandboxes: DockerSandboxes) -> Probed:
    try:
        if start.base:
            return await probe(sandboxes, start.base)
        with tempfile.TemporaryDirectory(prefix="rackbench-context-") as work:
            context = Path(work, "context")
            await to_thread.run_sync(lambda: shutil.copytree(folder, context, symlinks=True))
            (context / "Dockerfile").write_text(start.dockerfile or "")
            return await probe(sandboxes, Build(context))
    except UsageError as error:
        raise UsageError(f"{start.origin}: {error}; or choose an image: --base IMAGE") from error


def _write_context(folder: Path, context: str) -> list[str]:
    """Unpack the part of the tree from which a Dockerfile copies; returns notes."""
    notes = []
    prefix = "" if context == "." else f"{context}/"
    with tarfile.open(folder / lines_of.ARCHIVE) as archive:
        for entry in archive:
            below = entry.name.removeprefix(prefix)
            if not entry.name.startswith(prefix) or below.partition("/")[0] == ".git":
                continue
            if below in (lines_of.ARCHIVE, lines_of.WHEELS):
                raise UsageError(f"the repository has a {entry.name} of its own; use --base IMAGE")
            entry.name = below
            try:
                archive.extract(entry, folder, filter="data")
            except tarfile.FilterError:
                notes.append(f"{below} is a link that leads out; it is not in the build context")
    ignored = folder / ".dockerignore"
    if ignored.exists():
        with ignored.open("a") as file:
            file.write(f"\n!{lines_of.ARCHIVE}\n!{lines_of.WHEELS}\n")
    return notes


def _wanted(project: PythonProject, probed: Probed) -> tuple[str, ...]:
    """Requirements; none where the project names none and the image can run its tests."""
    if probed.has_pytest and not (project.name or project.runtime or project.tests):
        return ()
    return project.requirements


def _packages(
    fix: Fix,
    project: PythonProject,
    wanted: Sequence[str],
    interpreter: Interpreter,
    folder: Path,
) -> list[str]:
    """Put wheels beside the Dockerfile; returns its lines that install them."""
    if not wanted:
        return []
    # What a user names goes before what the project pinned.
    named = {normalised(text) for text in wanted if text not in project.requirements}
    wheels = download(
        wanted,
        interpreter,
        folder / lines_of.WHEELS,
        pins=[pin for pin in project.pins if normalised(pin) not in named],
        without=project.name,
    )
    return lines_of.with_wheels(wheels, without=_own_names(fix, project))


def _own_names(fix: Fix, project: PythonProject) -> Sequence[str]:
    """Distribution and modules of the project, as they lie in a folder of packages."""
    modules = {
        path.removeprefix("src/").partition("/")[0]
        for path in (entry.path for entry in fix.repository.files(fix.parent))
        if path.endswith("/__init__.py") and path.removeprefix("src/").count("/") == 1
    } - {"tests", "test", "docs", "examples"}
    names = [project.name, project.name.replace("-", "_")] if project.name else []
    return sorted({*names, *modules})
