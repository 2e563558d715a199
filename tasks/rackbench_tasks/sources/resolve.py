"""From a source as written to files on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rackbench_tasks.problem import TaskError
from rackbench_tasks.sources.archive import archive_digest, is_archive, unpacked
from rackbench_tasks.sources.git import shown_url
from rackbench_tasks.sources.origin import Origin, SourceKind
from rackbench_tasks.sources.places import Places
from rackbench_tasks.sources.repository import Repository, check_out
from rackbench_tasks.sources.source import Source


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where the files of a source are now."""

    target: Path
    """A task, a folder of tasks, a suite file, or a dataset's list."""
    root: Path
    """What paths of origins are relative to."""
    origin: Origin
    """Of the whole; without a path."""

    @property
    def is_fetched(self) -> bool:
        """Whether it came from elsewhere: nothing outside its root is part of it then."""
        return self.origin.kind is not SourceKind.FOLDER


def resolve_source(
    source: Source, *, beside: Path, places: Places, within: Resolved | None = None
) -> Resolved:
    """Find a source, fetching or unpacking it where it is not kept yet.

    `beside` is the folder that relative paths start from; `within` is what the file that names
    the source was itself taken from. Raises TaskError.
    """
    source = source.anchored(beside)
    if source.git:
        return _of_git(source, places)
    archive = source.archive or (source.path if is_archive(Path(source.path or "")) else None)
    if archive and not Path(archive).is_dir():
        _stay_within(Path(archive), within)
        return _of_archive(Path(archive), source, places)
    assert source.path is not None
    target = Path(source.path)
    _stay_within(target, within)
    if within and within.is_fetched:
        return Resolved(target, within.root, within.origin)
    folder = target if target.is_dir() else target.parent
    return Resolved(target, folder, Origin(SourceKind.FOLDER, str(folder)))


def _of_git(source: Source, places: Places) -> Resolved:
    assert source.git is not None
    assert source.ref is not None
    path = _inside(source.path)
    repository = Repository(
        url=source.git,
        ref=source.ref,
        path=path,
        mirror=Path(source.mirror) if source.mirror else None,
        moving=source.moving,
    )
    found = check_out(repository, places)
    origin = Origin(SourceKind.GIT, shown_url(source.git), ref=source.ref, commit=found.commit)
    return Resolved(found.root / path, found.root, origin)


def _of_archive(archive: Path, source: Source, places: Places) -> Resolved:
    if not is_archive(archive):
        raise TaskError(f"{archive}: expected an archive: .tar, .tar.gz, .tar.xz, .tar.zst, .zip")
    digest = archive_digest(archive)
    if source.digest and source.digest != digest:
        raise TaskError(
            f"{archive}: has the digest {digest}, and {source.digest} is wanted; "
            "it is another file, or was changed"
        )
    root = unpacked(archive, digest=digest, cache=places.cache)
    target = root / _inside(source.path if source.archive else None)
    if not target.exists():
        there = ", ".join(sorted(entry.name for entry in root.iterdir())[:20])
        raise TaskError(f"{archive}: holds no {source.path}; there is: {there}")
    origin = Origin(SourceKind.ARCHIVE, str(archive), archive_digest=digest)
    return Resolved(target, root, origin)


def _inside(path: str | None) -> str:
    """A path in the one way it is written; empty for the top."""
    parts = PurePosixPath(path or "")
    return "" if parts == PurePosixPath() else str(parts)


def _stay_within(path: Path, within: Resolved | None) -> None:
    if within and within.is_fetched and not path.resolve().is_relative_to(within.root.resolve()):
        raise TaskError(f"{path}: lies outside {within.origin}, whose suite file names it")
