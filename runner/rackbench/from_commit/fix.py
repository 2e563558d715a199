"""A commit that is to become a task: its state before, its change, and its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rackbench.errors import UsageError
from rackbench.from_commit.path_kind import is_runnable_test, is_test
from rackbench.from_commit.repository import Repository, TreeEntry

_NO_MODE = "000000"
_SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit did to one path; a rename is a removal and an addition."""

    status: str
    """A added, D removed, M modified, T of another type."""
    path: str
    mode: str
    """Afterwards; of a removed file, before."""
    oid: str
    """Of its content afterwards; zeros where it is removed."""

    @property
    def is_removal(self) -> bool:
        """The path is no longer there."""
        return self.status == "D"


@dataclass(frozen=True, slots=True)
class Fix:
    """A commit and its parent, the change divided into tests and the rest."""

    repository: Repository
    commit: str
    parent: str
    message: str
    date: datetime
    """Of the parent's commit; UTC."""
    tests: tuple[Change, ...]
    """Changes of tests and of what belongs to them."""
    source: tuple[Change, ...]
    """Everything else: what the reference solution does."""
    runnable: tuple[str, ...]
    """Test files that are run to judge."""

    @property
    def subject(self) -> str:
        """First line of the message."""
        return self.message.partition("\n")[0].strip()

    @property
    def short(self) -> str:
        """The commit's id as people write it."""
        return self.commit[:10]


def find_fix(
    repository: Repository, name: str, *, mainline: int | None = None, tests: Sequence[str] = ()
) -> Fix:
    """Read a commit as a fix.

    Raises UsageError where it is a root or a merge, or does not change both tests and other files.
    `tests` names the files to run, which need not be among those that the commit changed.
    """
    commit = repository.commit(name)
    parent = _parent(repository, commit, mainline)
    changes = changes_between(repository, parent, commit)
    named = _named(repository, commit, tests)
    mine = tuple(change for change in changes if is_test(change.path) or change.path in named)
    source = tuple(change for change in changes if change not in mine)
    short = commit[:10]
    if not mine and not named:
        raise UsageError(
            f"commit {short} changes no test; name tests that fail without it: --tests PATH"
        )
    if not source:
        raise UsageError(f"commit {short} changes nothing but tests; there is nothing to solve")
    if gone := [change.path for change in source if change.mode == _SUBMODULE]:
        raise UsageError(
            f"commit {short} changes the submodule {gone[0]}, whose content is not in this repository"
        )
    runnable = tuple(named) or tuple(
        change.path for change in mine if not change.is_removal and is_runnable_test(change.path)
    )
    if not runnable:
        raise UsageError(
            f"commit {short} changes files of tests ({mine[0].path}) and no test itself; "
            "name the tests that fail without it: --tests PATH"
        )
    seconds = int(repository.text("show", "-s", "--format=%ct", parent))
    return Fix(
        repository=repository,
        commit=commit,
        parent=parent,
        message=repository.text("show", "-s", "--format=%B", commit).strip(),
        date=datetime.fromtimestamp(seconds, tz=UTC),
        tests=mine,
        source=source,
        runnable=runnable,
    )


def changes_between(repository: Repository, parent: str, commit: str) -> list[Change]:
    """Every path that differs."""
    raw = repository.read(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", parent, commit
    )
    fields = raw.decode(errors="surrogateescape").split("\0")
    found = []
    for about, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, _, oid, status = about.lstrip(":").split()
        mode = old_mode if new_mode == _NO_MODE else new_mode
        found.append(Change(status[0], path, mode, oid))
    return found


def new_blobs(fix: Fix) -> dict[str, TreeEntry]:
    """Contents of the fix, by object id, that are nowhere in the state before it."""
    before = {entry.oid for entry in fix.repository.files(fix.parent)}
    changed = {change.oid for change in (*fix.source, *fix.tests) if not change.is_removal}
    return {
        entry.oid: entry
        for entry in fix.repository.files(fix.commit)
        if entry.oid in changed and entry.oid not in before
    }


def _parent(repository: Repository, commit: str, mainline: int | None) -> str:
    parents = repository.text("rev-list", "--parents", "-n", "1", commit).split()[1:]
    short = commit[:10]
    if not parents:
        raise UsageError(
            f"commit {short} has no parent here: it is the first of its history, or the clone is "
            "shallow (git fetch --unshallow)"
        )
    if len(parents) > 1 and mainline is None:
        raise UsageError(
            f"commit {short} is a merge; take one of the merged commits, or say which parent is "
            f"the state before it: --mainline 1 (… {len(parents)})"
        )
    if not 1 <= (mainline or 1) <= len(parents):
        raise UsageError(f"commit {short} has no parent number {mainline}; it has {len(parents)}")
    return parents[(mainline or 1) - 1]


def _named(repository: Repository, commit: str, tests: Sequence[str]) -> list[str]:
    if not tests:
        return []
    there = [entry.path for entry in repository.files(commit)]
    found: list[str] = []
    for name in tests:
        wanted = name.strip("/")
        below = [
            path
            for path in there
            if path == wanted or (path.startswith(f"{wanted}/") and is_runnable_test(path))
        ]
        if not below:
            raise UsageError(f"commit {commit[:10]} has no test at {name!r}")
        found += [path for path in below if path not in found]
    return found
