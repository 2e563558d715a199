"""Git repositories in an image: every object that they hold, however it is hidden."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from rackbench.check.layers import ImageFiles, digest_of, lines_in
from rackbench.check.likeness import Like, Likeness

_TEXT_BYTES = 2_000_000
_BATCH_BYTES = 64_000_000
_TOLD = 40
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Blob:
    """A content that git keeps, and that gives an answer away."""

    id: str
    likes: tuple[Like, ...]
    where: str
    """From where it can be reached, and by which commit."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository of an image."""

    path: str
    """Of its git folder, from the root."""
    blobs: tuple[Blob, ...] = ()
    problem: str = ""
    """Why it could not be looked at."""


@dataclass(slots=True)
class _Git:
    """A bare copy of a repository's objects, refs and reflogs, without its configuration."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def call(self, *arguments: str, given: bytes = b"", check: bool = True) -> bytes:
        done = subprocess.run(
            ["git", "--git-dir", str(self.folder), *arguments],
            input=given,
            capture_output=True,
            env=self.env,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode and check:
            said = done.stderr.decode(errors="replace").strip()[-300:]
            raise OSError(f"git {arguments[0]} ended with {done.returncode}: {said}")
        return done.stdout

    def ids(self, *arguments: str) -> AbstractSet[str]:
        """First words of the lines that a command prints; none where it fails."""
        lines = self.call(*arguments, check=False).decode(errors="replace").splitlines()
        return {line.split(" ", 1)[0] for line in lines if line}


def find_repositories(
    files: ImageFiles, likeness: Likeness, *, wanted: AbstractSet[bytes]
) -> list[Repository]:
    """Repositories of an image, with the blobs that give an answer away.

    `wanted` are the lines to look for. What is a plain file of the image too is left out.
    """
    plain = frozenset(entry.digest for entry in files.values())
    found = []
    for path in sorted(_folders(files)):
        try:
            with _copy(files, path) as git:
                blobs = _blobs(git, likeness, wanted=wanted, plain=plain)
                found.append(Repository(f"/{path}", tuple(blobs)))
        except (OSError, subprocess.SubprocessError) as error:
            found.append(Repository(f"/{path}", problem=str(error)))
    return found


def _folders(files: ImageFiles) -> AbstractSet[str]:
    heads = (path for path in files if path.rpartition("/")[2] == "HEAD")
    folders = {path.rpartition("/")[0] for path in heads}
    return {folder for folder in folders if f"{folder}/objects" in files}


@contextmanager
def _copy(files: ImageFiles, path: str) -> Iterator[_Git]:
    with TemporaryDirectory(prefix="rackbench-git-") as made:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": made,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        git = _Git(Path(made) / "bare", env)
        names = [p for p in files if p.startswith(f"{path}/objects/")]
        kind = "sha256" if any(len(PurePosixPath(p).name) == 62 for p in names) else "sha1"
        subprocess.run(
            ["git", "init", "--quiet", "--bare", f"--object-format={kind}", str(git.folder)],
            env=env,
            capture_output=True,
            check=True,
            timeout=_SECONDS,
        )
        _fill(git.folder, files, path)
        yield git


def _fill(bare: Path, files: ImageFiles, path: str) -> None:
    for name in files:
        entry = files[name]
        if entry.kept is None or not name.startswith(f"{path}/"):
            continue
        if not name.endswith("info/alternates"):
            _link(entry.kept, bare / name.removeprefix(f"{path}/"))
    for folder in _alternates(files, path):
        for name in files:
            entry = files[name]
            if entry.kept is not None and name.startswith(f"{folder}/"):
                _link(entry.kept, bare / "objects" / name.removeprefix(f"{folder}/"))


def _alternates(files: ImageFiles, path: str) -> list[str]:
    listed = files.get(f"{path}/objects/info/alternates")
    if listed is None or listed.kept is None:
        return []
    lines = listed.kept.read_text(errors="replace").splitlines()
    found = [
        os.path.normpath(f"/{path}/objects/{line}") if line[:1] != "/" else line
        for line in lines
        if line
    ]
    return [folder.strip("/") for folder in found]


def _link(kept: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.write_bytes(kept.read_bytes())


def _blobs(
    git: _Git, likeness: Likeness, *, wanted: AbstractSet[bytes], plain: AbstractSet[str]
) -> list[Blob]:
    hits = []
    for blob, content in _contents(git):
        digest = digest_of(content)
        if digest not in plain and (likes := likeness.of(digest, lines_in(content, wanted))):
            hits.append((blob, tuple(likes)))
    if not hits:
        return []
    reach = _Reach(git)
    return [Blob(blob, likes, reach.words(blob)) for blob, likes in hits[:_TOLD]]


def _contents(git: _Git) -> Iterator[tuple[str, bytes]]:
    """Every blob that is no larger than a text to look through, some at a time."""
    batch: list[str] = []
    batch_bytes = 0
    every = git.call("cat-file", "--batch-all-objects", "--batch-check").decode().splitlines()
    for line in every:
        name, kind, size = line.split()
        if kind != "blob" or int(size) > _TEXT_BYTES:
            continue
        batch.append(name)
        batch_bytes += int(size)
        if batch_bytes > _BATCH_BYTES:
            yield from _batch(git, batch)
            batch, batch_bytes = [], 0
    yield from _batch(git, batch)


def _batch(git: _Git, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    out = git.call("cat-file", "--batch", given="".join(f"{name}\n" for name in ids).encode())
    at = 0
    for name in ids:
        end = out.index(b"\n", at)
        size = int(out[at:end].split()[2])
        yield name, out[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


class _Reach:
    """How an object can be come by."""

    def __init__(self, git: _Git) -> None:
        self._git = git
        self._head = git.ids("rev-list", "--objects", "HEAD")
        self._refs = git.ids("rev-list", "--objects", "--all")
        self._logs = git.ids("rev-list", "--objects", "--reflog")

    def words(self, blob: str) -> str:
        """From where, and the commit that brought it."""
        if blob in self._head:
            where = "in the history of HEAD"
        elif blob in self._refs:
            where = "by a ref beside HEAD (branch, tag, stash)"
        elif blob in self._logs:
            where = "by a reflog"
        else:
            return "by no ref, yet there (git cat-file shows it)"
        commit = self._git.call(
            "log", "--all", "--reflog", "-m", "-1", "--format=%h %s", f"--find-object={blob}",
            check=False,
        )  # fmt: skip
        shown = commit.decode(errors="replace").strip().partition("\n")[0]
        return f"{where}, commit {shown}" if shown else where
