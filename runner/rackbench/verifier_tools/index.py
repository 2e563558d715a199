"""`tools.json`: what a tool folder holds, written last, so that a folder without it is not whole."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

INDEX_NAME = "tools.json"
SCHEMA_VERSION = 1
_LASTING = ("wheels/", "pythons/")
_CHUNK_BYTES = 1024 * 1024


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class File(_Record):
    """One file of the folder."""

    bytes: int
    sha256: str = ""
    """Empty for a link."""
    executable: bool = False
    link: str | None = None
    """Where it leads, for a link."""


class Python(_Record):
    """An interpreter that verifiers may use."""

    version: str
    source: str
    """The folder that it was copied from, or how it was had."""
    glibc: str
    """The oldest C library that runs it, as `2.36`."""


class Wanted(_Record):
    """One request of packages that was answered in full."""

    requirements: tuple[str, ...]
    python: str
    """Its version, as `3.13`."""
    index: str | None = None
    """Address that the script itself names."""
    wheels: tuple[str, ...]


class Index(_Record):
    """The whole folder."""

    schema_version: int = SCHEMA_VERSION
    digest: str
    """`sha256:…` over paths, modes and contents."""
    uv: str
    """Its version."""
    pythons: dict[str, Python]
    """By folder below `pythons/`."""
    packages: dict[str, str]
    """sha256 by file name below `wheels/`."""
    answered: tuple[Wanted, ...]
    made_from: tuple[str, ...]
    """`NAME sha256:…` of every suite that it was warmed for."""
    files: dict[str, File] = Field(repr=False)
    """By path below the folder."""


def read_index(folder: Path) -> Index | None:
    """The index of a folder; None where there is none, or none that can be read."""
    try:
        return Index.model_validate_json((folder / INDEX_NAME).read_bytes())
    except (OSError, ValidationError):
        return None


def write_index(folder: Path, index: Index) -> None:
    """Put the index in place in one step, durably."""
    unfinished = folder / f".{INDEX_NAME}.{os.getpid()}"
    with unfinished.open("w") as file:
        file.write(index.model_dump_json(indent=1))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / INDEX_NAME)


def list_files(folder: Path, *, known: Index | None) -> dict[str, File]:
    """Every file of a folder but the index and what begins with a dot, in order of its path.

    Of wheels and interpreters, which are never rewritten, content is read only where the size is
    not the known one.
    """
    found: dict[str, File] = {}
    for parent, folders, names in os.walk(folder):
        top = Path(parent) == folder
        if top:
            folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in [*names, *links]:
            if top and (name == INDEX_NAME or name.startswith(".")):
                continue
            path = Path(parent) / name
            inside = path.relative_to(folder).as_posix()
            same = known.files.get(inside) if known and inside.startswith(_LASTING) else None
            found[inside] = _file(path, same)
    return dict(sorted(found.items()))


def folder_digest(files: dict[str, File]) -> str:
    """Of a whole folder, from what is known of its files."""
    whole = hashlib.sha256()
    for path, file in sorted(files.items()):
        line = f"{path}\0{int(file.executable)}\0{file.link or ''}\0{file.sha256}\n"
        whole.update(line.encode())
    return f"sha256:{whole.hexdigest()}"


def damaged(folder: Path, index: Index) -> list[str]:
    """Paths that are missing or not of their size."""
    return [path for path, file in index.files.items() if _size(folder / path) != file.bytes]


def _file(path: Path, known: File | None) -> File:
    status = path.lstat()
    if path.is_symlink():
        return File(bytes=status.st_size, link=str(path.readlink()))
    executable = bool(status.st_mode & 0o100)
    if known and known.sha256 and known.bytes == status.st_size:
        return File(bytes=status.st_size, sha256=known.sha256, executable=executable)
    content = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            content.update(chunk)
    return File(bytes=status.st_size, sha256=content.hexdigest(), executable=executable)


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size
    except OSError:
        return None
