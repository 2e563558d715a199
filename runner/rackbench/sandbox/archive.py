"""Tar archives in and out of a sandbox; what comes out is hostile."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rackbench_harnesses.ports import SandboxError

END = bytes(2 * tarfile.BLOCKSIZE)
"""Of an archive."""


@dataclass(slots=True)
class Content:
    """What came out of a sandbox."""

    files: dict[str, bytes] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Links, devices, pipes: left where they are."""


def pack_files(files: Mapping[str, bytes], *, mode: int) -> bytes:
    """An archive of files at absolute paths, owned by root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(content)
            entry.mode = mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def pack_folder(folder: Path, target: str) -> bytes:
    """An archive of a folder's content below an absolute path, owned by root, modes kept.

    Shell scripts are made to run: checkouts lose the executable bit and, on Windows, line ends.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in (folder, *sorted(folder.rglob("*"))):
            below = path.relative_to(folder).as_posix()
            entry = archive.gettarinfo(path, f"{target.strip('/')}/{below}".removesuffix("/."))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            if entry.isreg():
                content = path.read_bytes()
                if entry.name.endswith(".sh"):
                    entry.mode |= 0o111
                    content = content.replace(b"\r\n", b"\n")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                archive.addfile(entry)
    return buffer.getvalue()


def folders(modes: Mapping[str, int]) -> bytes:
    """The beginning of an archive, which makes folders owned by root; another may follow it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, mode in modes.items():
            entry = tarfile.TarInfo(path)
            entry.type = tarfile.DIRTYPE
            entry.mode = mode
            archive.addfile(entry)
    return buffer.getvalue()[: tarfile.BLOCKSIZE * len(modes)]


def unpack(chunks: Iterable[bytes], *, limit_bytes: int) -> Content:
    """What an archive holds, by path below its root.

    Raises SandboxError beyond `limit_bytes`.
    """
    found = Content()
    try:
        with tarfile.open(fileobj=bounded(chunks, limit_bytes), mode="r|") as archive:
            for entry in archive:
                name = _below_root(entry.name)
                if name is None or not (entry.isdir() or entry.isreg()):
                    found.others.append(name or entry.name)
                elif entry.isdir():
                    found.folders.append(name)
                else:
                    content = archive.extractfile(entry)
                    assert content is not None
                    found.files[name] = content.read()
    except tarfile.TarError as error:
        message = f"the archive out of the sandbox is broken: {error}"
        raise SandboxError(message) from error
    return found


def bounded(chunks: Iterable[bytes], limit_bytes: int) -> io.RawIOBase:
    """A file over pieces of bytes; reading beyond the limit raises SandboxError."""
    return _Chunks(chunks, limit_bytes)


def _below_root(name: str) -> str | None:
    """The path without its first part, which the engine takes from what was asked for."""
    parts = PurePosixPath(name).parts
    if len(parts) == 1:
        return parts[0]
    if ".." in parts:
        return None
    return str(PurePosixPath(*parts[1:]))


class _Chunks(io.RawIOBase):
    """A bounded file over an iterator of bytes."""

    def __init__(self, chunks: Iterable[bytes], limit_bytes: int) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._rest = b""
        self._left = limit_bytes
        self._limit = limit_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._left -= len(chunk)
            if self._left < 0:
                message = f"what was asked for is larger than {self._limit:,} bytes"
                raise SandboxError(message)
            self._rest += chunk
        end = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:end], self._rest[end:]
        return piece
