"""The identity of a folder: sha256 over every file in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from rackbench_tasks.model import TaskError

_CHUNK_BYTES = 1024 * 1024
_LEFT_OUT = frozenset({".git", "__pycache__", ".DS_Store", ".pytest_cache"})


def folder_digest(folder: Path) -> str:
    """`sha256:` and 64 hex digits, over path, executable bit and content of every file.

    Links count by their target and must stay inside; caches of tools do not count.
    Raises TaskError.
    """
    total = hashlib.sha256()
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            kind, content = "link", _target(path, folder).encode()
        else:
            kind = "program" if path.stat().st_mode & 0o100 else "file"
            content = _content_digest(path)
        for part in (kind.encode(), name.encode(), content):
            total.update(len(part).to_bytes(8, "big") + part)
    return f"sha256:{total.hexdigest()}"


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        here = Path(root)
        # A link to a folder is listed as a folder, and counts as a link.
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(n for n in folders if n not in _LEFT_OUT and n not in links)
        for name in sorted([*names, *links]):
            if name not in _LEFT_OUT:
                yield here / name


def _target(link: Path, folder: Path) -> str:
    if not link.resolve().is_relative_to(folder.resolve()):
        raise TaskError(f"{link} leads out of the task, to {link.readlink()}")
    return link.readlink().as_posix()


def _content_digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()
