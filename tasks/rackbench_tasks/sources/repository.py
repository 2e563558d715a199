"""Tasks of a git repository at one commit: the files of one path, without history."""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from rackbench_tasks.keys import did_you_mean
from rackbench_tasks.problem import TaskError
from rackbench_tasks.sources.git import GitFailure, git, shown_url
from rackbench_tasks.sources.places import Places, keeping, kept
from rackbench_tasks.sources.snapshot import fetch_commit, write_files

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PART_OF_COMMIT = re.compile(r"[0-9a-f]{4,63}")
_NEXT = {
    r"terminal prompts|[Aa]uthentication|Permission denied|could not read": (
        "let git sign in without a question: a credential helper, or a key of ssh without one"
    ),
    r"dubious ownership": "see `git config --global --add safe.directory`, if you trust its owner",
    r"[Cc]ould not resolve|[Cc]onnect|timed out|unreachable|Operation too slow": (
        "it needs the network once; or name a local copy by `mirror` or RACKBENCH_GIT_MIRRORS"
    ),
}
_SHOWN_NAMES = 30
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Repository:
    """What is wanted of a repository."""

    url: str
    ref: str
    path: str = ""
    """A folder or a suite file inside; POSIX, without `..`."""
    mirror: Path | None = None
    moving: bool = False

    def __str__(self) -> str:
        return f"{shown_url(self.url)} at {self.ref}"


@dataclass(frozen=True, slots=True)
class Checkout:
    """Files of a repository."""

    root: Path
    """Stands for the repository's top; only the wanted path is there."""
    commit: str


def check_out(repository: Repository, places: Places) -> Checkout:
    """The files that are wanted, fetched unless they are kept already.

    A tag once resolved stays what it was. Raises TaskError with what each place answered.
    """
    commit = _known_commit(repository, places.cache)
    if commit and (found := kept(places.cache, _key(commit, repository.path))):
        return Checkout(found, commit)
    failures: list[str] = []
    for remote in _remotes(repository, places):
        _logger.info("fetching %s from %s", repository, shown_url(remote))
        try:
            fetched = _resolved(remote, repository, known=commit)
            root = _fetched(remote, repository, fetched, places.cache)
        except GitFailure as failure:
            said = str(failure).replace(remote, shown_url(remote))
            failures.append(f"from {shown_url(remote)}: {said}")
        else:
            _remember(repository, fetched, places.cache)
            return Checkout(root, fetched)
    said = "; ".join(failures)
    raise TaskError(f"{repository}: cannot be fetched: {said}; {_next(said, repository)}")


def _next(said: str, repository: Repository) -> str:
    hints = (hint for pattern, hint in _NEXT.items() if re.search(pattern, said))
    return next(hints, f"try `git ls-remote {shown_url(repository.url)}`")


def _key(commit: str, path: str) -> str:
    return hashlib.sha256(f"git\0{commit}\0{path}".encode()).hexdigest()


def _tag_record(repository: Repository, cache: Path) -> Path:
    named = f"{shown_url(repository.url)}\0{repository.ref}"
    return cache / "tags" / hashlib.sha256(named.encode()).hexdigest()


def _known_commit(repository: Repository, cache: Path) -> str | None:
    """What a ref is known to be without asking anybody."""
    if _COMMIT.fullmatch(repository.ref):
        return repository.ref
    if repository.moving:
        return None
    try:
        return _tag_record(repository, cache).read_text().strip()
    except FileNotFoundError:
        return None


def _remember(repository: Repository, commit: str, cache: Path) -> None:
    if repository.moving or commit == repository.ref:
        return
    record = _tag_record(repository, cache)
    record.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=record.parent, delete=False) as file:
        file.write(commit + "\n")
    Path(file.name).replace(record)


def _remotes(repository: Repository, places: Places) -> list[str]:
    """Where to ask, local copies first."""
    found = [repository.mirror] if repository.mirror else []
    parts = urlsplit(repository.url)
    if places.mirrors and parts.hostname:
        below = places.mirrors / parts.hostname / parts.path.strip("/").removesuffix(".git")
        if ".." not in below.parts:
            found += [
                path for path in (below, below.with_name(f"{below.name}.git")) if path.exists()
            ]
    return [*map(str, found), repository.url]


def _resolved(remote: str, repository: Repository, *, known: str | None) -> str:
    """The commit that a ref is at a remote; raises TaskError where it is not what it should be."""
    ref = repository.ref
    if known == ref:
        return ref
    names = (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}")
    refs = _refs(remote, names)
    tag = refs.get(names[0]) or refs.get(names[1])
    if tag:
        if known and known != tag:
            raise TaskError(
                f"{repository}: the tag has moved: it was {known}, and is {tag} now; "
                "give the commit that you mean as `ref`, or `moving: true` to follow the tag"
            )
        return tag
    branch = refs.get(names[2])
    if branch and repository.moving:
        return branch
    if branch:
        raise TaskError(
            f"{repository}: is a branch, which moves; give a tag or a full commit (it is at "
            f"{branch} now), or `moving: true` to follow it"
        )
    raise GitFailure("ls-remote", _no_such_ref(remote, ref))


def _no_such_ref(remote: str, ref: str) -> str:
    known = {
        name.split("/", 2)[2]
        for name in _refs(remote, ("refs/tags/*",))
        if not name.endswith("^{}")
    }
    hint = did_you_mean(ref, sorted(known)[-_SHOWN_NAMES:]) if known else "it has no tags"
    if _PART_OF_COMMIT.fullmatch(ref):
        hint = "of a commit, give all digits"
    return f"there is no tag {ref!r}; {hint}"


def _refs(remote: str, names: Sequence[str]) -> dict[str, str]:
    lines = (
        git(["ls-remote", "--quiet", "--", remote, *names]).decode(errors="replace").splitlines()
    )
    return {name: commit for commit, _, name in (line.partition("\t") for line in lines)}


def _fetched(remote: str, repository: Repository, commit: str, cache: Path) -> Path:
    key = _key(commit, repository.path)
    if found := kept(cache, key):
        return found
    with keeping(cache, key) as tree, tempfile.TemporaryDirectory(prefix="rackbench-git-") as made:
        git_dir = Path(made) / "git"
        fetch_commit(git_dir, remote, commit=commit, ref=repository.ref)
        _check_path(git_dir, repository, commit)
        write_files(git_dir, commit, path=repository.path, into=tree)
    found = kept(cache, key)
    assert found is not None
    return found


def _check_path(git_dir: Path, repository: Repository, commit: str) -> None:
    """Raise TaskError where a commit has no such path, and say what there is."""
    path = PurePosixPath(repository.path)
    if not repository.path or _names(git_dir, commit, str(path)):
        return
    for above in path.parents:
        at_top = above == PurePosixPath()
        if there := _names(git_dir, commit, "" if at_top else f"{above}/"):
            shown = ", ".join(there[:_SHOWN_NAMES]) + (" …" if len(there) > _SHOWN_NAMES else "")
            raise TaskError(f"{repository}: has no {path}; there is: {shown}")
    raise TaskError(f"{repository}: holds no file")


def _names(git_dir: Path, commit: str, path: str) -> list[str]:
    listed = git(
        ["ls-tree", "-z", "--name-only", commit, *(["--", path] if path else [])], git_dir=git_dir
    )
    return [name.decode(errors="replace") for name in listed.split(b"\0") if name]
