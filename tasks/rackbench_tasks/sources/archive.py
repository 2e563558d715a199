"""Archives of tasks: unpacked within bounds, and only into their own folder."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import shutil
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, Self

from rackbench_tasks.problem import TaskError
from rackbench_tasks.sources.places import keeping, kept

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar.zst", ".zip")
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    NotImplementedError,  # a zip whose compression Python does not know
)
_PIECE_BYTES = 1024 * 1024
_LINK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an archive may hold: a few bytes can unpack to more than a disk has."""

    total_bytes: int = 16 * 1024**3
    entries: int = 500_000


def is_archive(path: Path) -> bool:
    """Whether a file is named like an archive that can be read."""
    return path.name.lower().endswith(SUFFIXES)


def archive_digest(archive: Path) -> str:
    """`sha256:…` of the file itself. Raises TaskError."""
    try:
        with archive.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise TaskError(f"there is no {archive}") from None
    except OSError as error:
        raise TaskError(f"{archive}: cannot be read: {error.strerror}") from error


def unpacked(archive: Path, *, digest: str, cache: Path, bounds: Bounds | None = None) -> Path:
    """The folder that an archive of this digest unpacks to; unpacked once.

    Raises TaskError for what is damaged, too large, or leads out of the folder.
    """
    key = digest.removeprefix("sha256:")
    if found := kept(cache, key):
        return found
    with keeping(cache, key) as folder:
        unpacking = _Unpacking(archive, folder, bounds or Bounds())
        try:
            if archive.name.lower().endswith(".zip"):
                _unzip(unpacking)
            else:
                _untar(unpacking)
            unpacking.link()
        except _BROKEN as error:
            raise TaskError(f"{archive}: is damaged, or no archive: {error}") from error
        except OSError as error:
            raise TaskError(f"{archive}: cannot be unpacked: {error.strerror or error}") from error
    found = kept(cache, key)
    assert found is not None
    return found


@dataclass(slots=True)
class _Unpacking:
    archive: Path
    folder: Path
    bounds: Bounds
    seen_bytes: int = 0
    entries: int = 0
    links: list[tuple[PurePosixPath, str]] = field(default_factory=list)

    def path_of(self, name: str) -> PurePosixPath:
        """Where an entry goes; a name that leads out is refused."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
            raise self.refused(f"the entry {name!r} leads out of it")
        self.entries += 1
        if self.entries > self.bounds.entries:
            raise self.refused(f"it has more than {self.bounds.entries} entries")
        return path

    def make_folder(self, path: PurePosixPath) -> None:
        (self.folder / path).mkdir(parents=True, exist_ok=True)

    def write(self, path: PurePosixPath, content: IO[bytes], *, mode: int) -> None:
        """Write a file; what comes out is counted, whatever size the archive claims."""
        self.make_folder(path.parent)
        with (self.folder / path).open("xb") as file:
            while piece := content.read(_PIECE_BYTES):
                self.seen_bytes += len(piece)
                if self.seen_bytes > self.bounds.total_bytes:
                    raise self.too_large()
                file.write(piece)
        (self.folder / path).chmod(0o755 if mode & stat.S_IXUSR else 0o644)

    def add_link(self, path: PurePosixPath, target: str) -> None:
        """Note a link; `..` may only lead, so that no other link can bend its way outside."""
        parts = PurePosixPath(target).parts
        up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
        leaves = up > len(path.parent.parts) or target.startswith("/") or ".." in parts[up:]
        if leaves or not parts or len(target) > _LINK_BYTES or "\0" in target:
            raise self.refused(f"the link {str(path)!r} to {target[:80]!r} leads out of it")
        self.links.append((path, target))

    def link(self) -> None:
        """Make the links; the last thing, so that nothing is ever written through one."""
        for path, target in self.links:
            self.make_folder(path.parent)
            (self.folder / path).symlink_to(target)

    def too_large(self) -> TaskError:
        return self.refused(f"it holds more than {self.bounds.total_bytes} bytes")

    def refused(self, why: str) -> TaskError:
        return TaskError(f"{self.archive}: is not unpacked: {why}")


def _untar(unpacking: _Unpacking) -> None:
    with _decompressed(unpacking.archive) as content:
        stream = _Stream(content, unpacking)
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as tar:
            for member in tar:
                _take(member, tar, unpacking)
        stream.expect_end()


def _take(member: tarfile.TarInfo, tar: tarfile.TarFile, unpacking: _Unpacking) -> None:
    path = unpacking.path_of(member.name)
    if member.isdir():
        unpacking.make_folder(path)
    elif member.issym():
        unpacking.add_link(path, member.linkname)
    elif member.islnk():
        # A file of its own: two tasks must not share what one of them changes.
        twin = unpacking.folder / unpacking.path_of(member.linkname)
        with twin.open("rb") as content:
            unpacking.write(path, content, mode=twin.stat().st_mode)
    elif member.isfile():
        unpacking.write(path, tar.extractfile(member) or io.BytesIO(), mode=member.mode)
    else:
        raise unpacking.refused(f"the entry {member.name!r} is no file, folder or link")


class _Member(tarfile.TarInfo):
    """An entry whose long name or attributes, which are read into memory, are not too long."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        is_about_another = not (
            member.isfile() or member.isdir() or member.issym() or member.islnk()
        )
        if is_about_another and member.size > _PIECE_BYTES:
            raise tarfile.ReadError(f"{member.size} bytes about one entry")
        return member


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Stream(io.RawIOBase):
    """The bytes of a tar, counted; its end is looked at, since tarfile takes a part for the whole."""

    def __init__(self, content: _Readable, unpacking: _Unpacking) -> None:
        self._content = content
        self._unpacking = unpacking
        self._seen_bytes = 0
        self._last = b""

    def read(self, size: int = -1, /) -> bytes:
        piece = self._content.read(size)
        self._seen_bytes += len(piece)
        if self._seen_bytes > self._unpacking.bounds.total_bytes:
            raise self._unpacking.too_large()
        self._last = (self._last + piece)[-tarfile.BLOCKSIZE :]
        return piece

    def expect_end(self) -> None:
        while self.read(_PIECE_BYTES):
            pass
        if self._last.strip(b"\0"):
            raise tarfile.ReadError("it is cut off")


def _opened(archive: Path, name: str) -> gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File | IO[bytes]:
    if name.endswith((".gz", ".tgz")):
        return gzip.open(archive, "rb")
    if name.endswith((".xz", ".txz")):
        return lzma.open(archive, "rb")
    return bz2.open(archive, "rb") if name.endswith(".bz2") else archive.open("rb")


@contextmanager
def _decompressed(archive: Path) -> Iterator[_Readable]:
    """The content of a file; what Python does not decompress, a program does."""
    name = archive.name.lower()
    if not name.endswith(".zst"):
        with _opened(archive, name) as content:
            yield content
        return
    if not shutil.which("zstd"):
        raise TaskError(
            f"{archive}: the program zstd, which unpacks it, is not there; install zstd, "
            "or pack the tasks as .tar.gz"
        )
    command = ["zstd", "--decompress", "--stdout", "--quiet", "--", str(archive)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as zstd:
        assert zstd.stdout is not None
        is_read = False
        try:
            yield zstd.stdout
            is_read = True
        finally:
            if not is_read:
                zstd.kill()
        if zstd.wait():
            raise TaskError(f"{archive}: is damaged, or no archive: zstd cannot read it")


def _unzip(unpacking: _Unpacking) -> None:
    with zipfile.ZipFile(unpacking.archive) as packed:
        for member in packed.infolist():
            path = unpacking.path_of(member.filename)
            mode = member.external_attr >> 16
            if member.flag_bits & 1:
                raise unpacking.refused(f"the entry {member.filename!r} is encrypted")
            if member.is_dir():
                unpacking.make_folder(path)
                continue
            with packed.open(member) as content:
                if stat.S_ISLNK(mode):
                    target = content.read(_LINK_BYTES + 1).decode(errors="surrogateescape")
                    unpacking.add_link(path, target)
                else:
                    unpacking.write(path, content, mode=mode)
