"""A git repository, read by the `git` program; nothing is ever written to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rackbench.errors import PrerequisiteError, UsageError

# What a user's own configuration could change in what is read here.
_SETTINGS = (
    "safe.directory=*",
    "core.quotepath=off",
    "core.attributesFile=/dev/null",
    "diff.renames=false",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.algorithm=myers",
    "color.ui=never",
    "log.showSignature=false",
)
_LAST_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a commit."""

    mode: str
    oid: str
    size_bytes: int
    path: str

    @property
    def is_link(self) -> bool:
        """Symbolic."""
        return self.mode == "120000"

    @property
    def is_submodule(self) -> bool:
        """A commit of another repository."""
        return self.mode == "160000"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with or without a work tree."""

    path: Path
    name: str

    def read(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What a git command prints.

        Raises UsageError where it fails.
        """
        return run_git([*arguments], at=self.path, stdin=stdin)

    def text(self, *arguments: str) -> str:
        """What a git command prints, decoded, without the last line end."""
        return self.read(*arguments).decode(errors="replace").rstrip("\n")

    def commit(self, name: str) -> str:
        """The full id of a commit.

        Raises UsageError where there is none of that name.
        """
        try:
            return self.text("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        except UsageError as error:
            raise UsageError(f"{self.path} has no commit {name!r}") from error

    def files(self, commit: str) -> list[TreeEntry]:
        """Every file of a commit."""
        found = []
        for line in _fields(self.read("ls-tree", "-r", "-z", "-l", "--full-tree", commit)):
            about, path = line.split("\t", 1)
            mode, _, oid, size = about.split()
            found.append(TreeEntry(mode, oid, int(size) if size.isdigit() else 0, path))
        return found

    def content(self, commit: str, path: str) -> bytes | None:
        """A file of a commit; None where it has none there."""
        entry = _fields(self.read("ls-tree", "-z", "--full-tree", commit, "--", path))
        if not entry or entry[0].split()[1] != "blob":
            return None
        return self.read("cat-file", "blob", entry[0].split()[2])

    def blobs(self, oids: Iterable[str]) -> dict[str, bytes]:
        """Contents by object id."""
        wanted = list(dict.fromkeys(oids))
        output = self.read("cat-file", "--batch", stdin="".join(f"{o}\n" for o in wanted).encode())
        found, at = {}, 0
        for oid in wanted:
            end = output.index(b"\n", at)
            about = output[at:end].split()
            if len(about) != 3:
                raise UsageError(f"{self.path} lacks the object {oid}; is the clone partial?")
            size = int(about[2])
            found[oid] = output[end + 1 : end + 1 + size]
            at = end + size + 2
        return found


def open_repository(path: Path) -> Repository:
    """The repository at or above a folder, bare or not.

    Raises UsageError.
    """
    if not path.is_dir():
        raise UsageError(
            f"{path} is not a folder; clone the repository first: git clone --mirror URL FOLDER"
        )
    try:
        folder = run_git(["rev-parse", "--absolute-git-dir"], at=path).decode().strip()
    except UsageError as error:
        raise UsageError(f"{path} is not in a git repository") from error
    # A folder of such a name says nothing of what is in it; its own folder may.
    top = Path(folder).parent if Path(folder).name in (".git", "repo") else Path(folder)
    name = top.name.removesuffix(".git").rpartition("+")[2]
    return Repository(Path(folder), name or "repository")


def run_git(
    arguments: Sequence[str],
    *,
    at: Path,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> bytes:
    """What git prints, run in a folder.

    Raises UsageError with git's own words where it fails.
    """
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    # An inherited GIT_DIR or GIT_INDEX_FILE (of a hook, say) would name another repository.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=at,
            input=stdin,
            capture_output=True,
            check=False,
            env={
                **inherited,
                "GIT_TERMINAL_PROMPT": "0",
                "GIT_OPTIONAL_LOCKS": "0",
                "LC_ALL": "C.UTF-8",
                **(env or {}),
            },
        )
    except FileNotFoundError as error:
        raise PrerequisiteError("there is no `git` program here; install it") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-_LAST_CHARACTERS:]
        raise UsageError(
            f"git {' '.join(arguments[:2])} in {at} ended with {done.returncode}: {said}"
        )
    return done.stdout


def _fields(output: bytes) -> list[str]:
    return [part for part in output.decode(errors="surrogateescape").split("\0") if part]
