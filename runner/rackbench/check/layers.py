"""The files of images, read once for all of them: layers that they share come a single time."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import tarfile
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

import docker

from rackbench.sandbox.engine import explained

_REQUEST_SECONDS = 600
_PIECE_BYTES = 1024 * 1024
_TEXT_BYTES = 2_000_000
_KEPT_BYTES = 512 * 1024 * 1024
_PYC_HEADER_BYTES = 16
_OPAQUE = ".wh..wh..opq"
_WHITEOUT = ".wh."
# What a git repository is made of; its configuration stays where it is, since it can name programs.
_GIT = re.compile(
    r"(?:^|/)(?:objects/(?:[0-9a-f]{2}/[0-9a-f]{38,62}|pack/[^/]+|info/alternates)"
    r"|packed-refs|shallow|HEAD|ORIG_HEAD|refs/.+|logs/(?:HEAD|refs/.+))$"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or link of an image."""

    kind: str
    """`file`, `folder`, `link` or `other`."""
    mode: int
    owner: tuple[int, int]
    size_bytes: int = 0
    digest: str = ""
    """Of a file's content; without the header in which Python keeps a time."""
    target: str = ""
    """Of a link."""
    lines: frozenset[bytes] = frozenset()
    """Those of the wanted lines that a text holds."""
    kept: Path | None = None
    """A copy on this machine, of what belongs to a git repository."""

    def same_as(self, other: Entry) -> bool:
        """Whether nothing but times differs."""
        return (self.kind, self.mode, self.owner, self.digest, self.target) == (
            other.kind,
            other.mode,
            other.owner,
            other.digest,
            other.target,
        )


ImageFiles = Mapping[str, Entry]
"""By path, without the leading slash."""


@dataclass(slots=True)
class _Layer:
    entries: dict[str, Entry] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    """Paths that this layer takes away."""
    emptied: list[str] = field(default_factory=list)
    """Folders of which nothing of the layers below remains."""


@dataclass(slots=True)
class _Archive:
    """What `docker save` writes, in either of its layouts."""

    wanted: AbstractSet[bytes]
    keep: Path
    layers: dict[str, _Layer] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    manifest: list[Mapping[str, object]] = field(default_factory=list)
    kept_bytes: int = 0


def read_images(
    api: docker.APIClient, ids: Sequence[str], *, wanted: AbstractSet[bytes], keep: Path
) -> dict[str, ImageFiles]:
    """The files of images by their ids; copies of git's own files are put below a folder.

    `wanted` are the stripped lines to look for in texts. Raises SandboxError.
    """
    if not ids:
        return {}
    archive = _Archive(wanted, keep)
    with (
        explained(f"reading {len(ids)} images"),
        api.get(
            f"{api.base_url}/v{api.api_version}/images/get",
            params={"names": list(ids)},
            stream=True,
            timeout=_REQUEST_SECONDS,
        ) as answer,
    ):
        answer.raise_for_status()
        stream = io.BufferedReader(answer.raw, _PIECE_BYTES)
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE_BYTES) as outer:
            for member in outer:
                _take(archive, member, outer)
    return _by_id(archive, ids)


def digest_of(content: bytes, *, path: str = "") -> str:
    """Of a content, as `Entry.digest` has it."""
    begin = _PYC_HEADER_BYTES if path.endswith(".pyc") else 0
    return hashlib.blake2b(memoryview(content)[begin:], digest_size=16).hexdigest()


def lines_in(content: bytes, wanted: AbstractSet[bytes]) -> frozenset[bytes]:
    """Those of the wanted lines that a text holds; none of what is no text."""
    if len(content) > _TEXT_BYTES or b"\0" in content[:8192]:
        return frozenset()
    return frozenset(line for line in map(bytes.strip, content.split(b"\n")) if line in wanted)


def _take(archive: _Archive, member: tarfile.TarInfo, outer: tarfile.TarFile) -> None:
    if member.issym() or member.islnk():
        folder = PurePosixPath(member.name).parent
        archive.links[member.name] = _joined(folder, member.linkname)
        return
    content = outer.extractfile(member) if member.isreg() else None
    if content is None:
        return
    if member.name == "manifest.json":
        archive.manifest = json.load(content)
    elif member.name.endswith("layer.tar") or member.name.startswith("blobs/"):
        with io.BufferedReader(content, _PIECE_BYTES) as layer:  # type: ignore[type-var]
            if layer.peek(1)[:1] not in (b"{", b""):
                archive.layers[member.name] = _layer(archive, layer)


def _layer(archive: _Archive, stream: IO[bytes]) -> _Layer:
    layer = _Layer()
    with tarfile.open(fileobj=stream, mode="r|*", bufsize=_PIECE_BYTES) as inner:
        for member in inner:
            path = member.name.removeprefix("./").strip("/")
            folder, _, name = path.rpartition("/")
            if name == _OPAQUE:
                layer.emptied.append(folder)
            elif name.startswith(_WHITEOUT):
                layer.gone.append(f"{folder}/{name.removeprefix(_WHITEOUT)}".lstrip("/"))
            elif path and path != "." and ".." not in path.split("/"):
                layer.entries[path] = _entry(archive, layer, member, inner, path)
    return layer


def _entry(
    archive: _Archive, layer: _Layer, member: tarfile.TarInfo, inner: tarfile.TarFile, path: str
) -> Entry:
    owner, mode = (member.uid, member.gid), stat.S_IMODE(member.mode)
    if member.islnk():
        original = layer.entries.get(member.linkname.removeprefix("./").strip("/"))
        if original:
            return original
    if member.issym():
        return Entry("link", 0, owner, target=member.linkname)
    if not member.isreg():
        kind = "folder" if member.isdir() else "other"
        return Entry(kind, mode, owner)
    stream = inner.extractfile(member)
    assert stream is not None
    if member.size > _TEXT_BYTES and not _GIT.search(path):
        return Entry("file", mode, owner, member.size, _digest_of_stream(stream))
    content = stream.read()
    return Entry(
        "file",
        mode,
        owner,
        member.size,
        digest_of(content, path=path),
        lines=lines_in(content, archive.wanted),
        kept=_kept(archive, path, content),
    )


def _digest_of_stream(stream: IO[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    while piece := stream.read(_PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _kept(archive: _Archive, path: str, content: bytes) -> Path | None:
    if not _GIT.search(path) or archive.kept_bytes + len(content) > _KEPT_BYTES:
        return None
    archive.kept_bytes += len(content)
    target = archive.keep / hashlib.blake2b(content, digest_size=16).hexdigest()
    target.write_bytes(content)
    return target


def _by_id(archive: _Archive, ids: Sequence[str]) -> dict[str, ImageFiles]:
    found: dict[str, ImageFiles] = {}
    for image in archive.manifest:
        config, layers = str(image["Config"]), image["Layers"]
        assert isinstance(layers, list)
        for wanted in ids:
            if wanted.removeprefix("sha256:") in config:
                found[wanted] = _merged([_named(archive, name) for name in layers])
    return found


def _named(archive: _Archive, name: str) -> _Layer:
    for _ in range(len(archive.links) + 1):
        if name not in archive.links:
            break
        name = archive.links[name]
    return archive.layers.get(name, _Layer())


def _merged(layers: Sequence[_Layer]) -> ImageFiles:
    files: dict[str, Entry] = {}
    for layer in layers:
        removed = [f"{folder}/" for folder in layer.emptied]
        removed += [f"{path}/" for path in layer.gone]
        # A file in the place of a folder takes the folder's content with it.
        removed += [
            f"{path}/"
            for path, entry in layer.entries.items()
            if entry.kind != "folder" and path in files and files[path].kind == "folder"
        ]
        if removed:
            below = tuple(removed)
            files = {path: entry for path, entry in files.items() if not path.startswith(below)}
        for path in layer.gone:
            files.pop(path, None)
        files.update(layer.entries)
    return files


def _joined(folder: PurePosixPath, target: str) -> str:
    parts: list[str] = []
    for part in (folder / target).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
