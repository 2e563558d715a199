"""The digest of a folder: its content, and nothing of where or when it lies."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from rackbench_tasks.problem import TaskError

_PIECE_BYTES = 1024 * 1024
_CACHE = "__pycache__"


class _Hash(Protocol):
    def update(self, piece: bytes | memoryview, /) -> None: ...


def task_digest(folder: Path) -> str:
    """`sha256:…` of a task: every file but a `.git` at its top.

    Raises TaskError, also for a link that leads out of the task.
    """
    entries = list(_entries(folder, besides=".git"))
    inside = os.path.realpath(folder)
    links = [folder / path for path, mode in entries if stat.S_ISLNK(mode)]
    if leaving := [link for link in links if not _leads_into(link, inside)]:
        raise TaskError(
            *(
                f"{link}: links to {link.readlink()}, which is outside the task; copy it in"
                for link in leaving
            )
        )
    return _digest(folder, entries)


def folder_digest(folder: Path) -> str:
    """`sha256:…` of a folder: path, executable bit and content of each file, targets of links.

    Left out is only what Python made of a source beside it in `__pycache__`. Empty folders do
    not count. Raises TaskError for what is no file, folder or link, or cannot be read.
    """
    return _digest(folder, _entries(folder))


def _digest(folder: Path, entries: Iterable[tuple[str, int]]) -> str:
    digest = hashlib.sha256()
    # Bytes, since a name need not be UTF-8.
    for name, path, mode in sorted((os.fsencode(path), path, mode) for path, mode in entries):
        full = folder / path
        try:
            if stat.S_ISLNK(mode):
                target = os.fsencode(full.readlink())
                digest.update(b"link %d %d\n%b%b" % (len(name), len(target), name, target))
            else:
                _add_file(digest, full, name, executable=bool(mode & stat.S_IXUSR))
        except OSError as error:
            raise TaskError(f"{full}: cannot be read: {error.strerror}") from error
    return f"sha256:{digest.hexdigest()}"


def _add_file(digest: _Hash, full: Path, name: bytes, *, executable: bool) -> None:
    with full.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(b"file %d %d %d\n%b" % (executable, len(name), size, name))
        seen, piece = 0, memoryview(bytearray(min(size + 1, _PIECE_BYTES)))
        while count := file.readinto(piece):
            digest.update(piece[:count])
            seen += count
    if seen != size:
        raise TaskError(f"{full}: changed while it was read; try again")


def _entries(folder: Path, *, besides: str = "") -> Iterator[tuple[str, int]]:
    """Relative POSIX path and mode of every file and link below a folder, in no order.

    `besides` names what is left out at the top.
    """
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(folder / below) as found:
                for entry in found:
                    path = f"{below}{entry.name}"
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if path == besides:
                        continue
                    if stat.S_ISDIR(mode):
                        waiting.append(f"{path}/")
                    elif not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                        raise TaskError(f"{entry.path}: is no file, folder or link")
                    elif not _is_derived(Path(entry.path)):
                        yield path, mode
        except OSError as error:
            raise TaskError(f"{folder / below}: cannot be read: {error.strerror}") from error


def _is_derived(file: Path) -> bool:
    """Whether Python compiled it from a source beside: running a test must not change a task."""
    if file.suffix != ".pyc" or file.parent.name != _CACHE:
        return False
    return (file.parent.parent / f"{file.name.partition('.')[0]}.py").exists()


def _leads_into(link: Path, folder: str) -> bool:
    return Path(os.path.realpath(link)).is_relative_to(folder)
