"""From an archive out of a sandbox to one that may go into another: nothing hostile passes."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from rackbench.sandbox.archive import bounded
from rackbench_harnesses.ports import SandboxError

_SPECIAL_BITS = 0o6000  # set-user-id and set-group-id


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is taken of a path, and whose it becomes."""

    source: str
    """Absolute."""
    exclude: tuple[str, ...] = ()
    """Patterns of names, or of paths below the source."""
    owner: tuple[int, int] = (0, 0)
    """User and group, as numbers."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may come out of a sandbox."""

    size_bytes: int
    entries: int


@dataclass(slots=True)
class Taken:
    """What came out of one path."""

    entries: int = 0
    size_bytes: int = 0
    left_out: list[str] = field(default_factory=list)
    """Links that lead out, devices, pipes."""


def repack(chunks: Iterable[bytes], into: tarfile.TarFile, wanted: Wanted, bounds: Bounds) -> Taken:
    """Copy an archive's files, folders and inner links to absolute paths of another archive.

    Raises SandboxError where it is broken, or larger than the bounds.
    """
    taken = Taken()
    try:
        with tarfile.open(fileobj=bounded(chunks, bounds.size_bytes), mode="r|") as archive:
            for entry in _wanted_entries(archive, wanted, taken):
                taken.entries += 1
                taken.size_bytes += entry.size if entry.isreg() else 0
                if taken.entries > bounds.entries:
                    message = f"{wanted.source} holds more than {bounds.entries:,} files"
                    raise SandboxError(message)
                into.addfile(entry, archive.extractfile(entry) if entry.isreg() else None)
    except tarfile.TarError as error:
        message = f"the archive of {wanted.source} is broken: {error}"
        raise SandboxError(message) from error
    return taken


def _wanted_entries(
    archive: tarfile.TarFile, wanted: Wanted, taken: Taken
) -> Iterator[tarfile.TarInfo]:
    root = wanted.source.rstrip("/")
    for entry in archive:
        below = PurePosixPath(entry.name).parts[1:]
        if ".." in below:
            taken.left_out.append(entry.name)
            continue
        if below and _is_excluded(below, wanted.exclude):
            continue
        path = "/".join((root, *below))
        if not _is_harmless(entry, path, root):
            taken.left_out.append(path)
            continue
        if entry.islnk():
            inner = PurePosixPath(entry.linkname).parts[1:]
            entry.linkname = "/".join((root, *inner)).lstrip("/")
        entry.name = path.lstrip("/")
        entry.mode &= ~_SPECIAL_BITS
        entry.uid, entry.gid = wanted.owner
        entry.uname = entry.gname = ""
        entry.pax_headers = {}
        yield entry


def _is_excluded(below: Sequence[str], patterns: Iterable[str]) -> bool:
    """As tar's own `--exclude`: a pattern fits a name at any depth, or a path from the source."""
    starts = ["/".join(below[: count + 1]) for count in range(len(below))]
    return any(
        fnmatchcase(text, pattern.strip("/")) for pattern in patterns for text in (*below, *starts)
    )


def _is_harmless(entry: tarfile.TarInfo, path: str, root: str) -> bool:
    if entry.isreg() or entry.isdir():
        return True
    if entry.islnk():
        return ".." not in PurePosixPath(entry.linkname).parts
    if entry.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.linkname))
        return path != root and (target == root or target.startswith(f"{root}/"))
    return False
