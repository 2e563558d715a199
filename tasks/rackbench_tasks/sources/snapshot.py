"""One commit of a repository, brought here with as little as the server allows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from rackbench_tasks.problem import TaskError
from rackbench_tasks.sources.git import GitFailure, git

_LFS = b"version https://git-lfs"
_LFS_BYTES = 1024
# What a server says that gives the same by other means.
_OTHER_WAY = re.compile(r"unadvertised|couldn't find remote ref|shallow|filter")
_SHA256_DIGITS = 64
# A local repository is ours to read as we like; a server decides for itself.
_LOCAL_SERVER = (
    "git -c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true upload-pack"
)


def fetch_commit(git_dir: Path, remote: str, *, commit: str, ref: str) -> None:
    """Fetch a commit and its trees into a new repository, its files where filters are unknown.

    `ref` is asked for where the server gives no commits by number, and everything where that
    fails too. Raises GitFailure, TaskError.
    """
    refs = [commit] if ref == commit else [commit, f"refs/tags/{ref}", f"refs/heads/{ref}"]
    attempts = [["--filter=blob:none", "--depth=1", "origin", wanted] for wanted in refs]
    attempts.append(["origin", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"])
    first: GitFailure | None = None
    for attempt in attempts:
        # New each time: after an attempt with a filter, git looks for whatever is missing at a
        # server that may have no such thing, and asks it for ever.
        _make_repository(git_dir, remote, digits=len(commit))
        try:
            git(["fetch", "--quiet", "--no-tags", *attempt], git_dir=git_dir)
            if _has(git_dir, commit):
                return
        except GitFailure as failure:
            first = first or failure
            if not _OTHER_WAY.search(failure.said):
                raise
    raise first or GitFailure("fetch", f"the commit {commit} is in no branch and no tag")


def _make_repository(git_dir: Path, remote: str, *, digits: int) -> None:
    shutil.rmtree(git_dir, ignore_errors=True)
    hash_kind = "sha256" if digits == _SHA256_DIGITS else "sha1"
    git(["init", "--quiet", "--bare", "--template=", f"--object-format={hash_kind}", str(git_dir)])
    git(["remote", "add", "--", "origin", remote], git_dir=git_dir)
    if remote.startswith(("/", "file://")):
        git(["config", "remote.origin.uploadpack", _LOCAL_SERVER], git_dir=git_dir)


def _has(git_dir: Path, commit: str) -> bool:
    try:
        kind = git(["cat-file", "-t", commit], git_dir=git_dir).strip()
    except GitFailure:
        return False
    if kind != b"commit":
        raise TaskError(f"{commit} is a {kind.decode()}, and no commit; give the commit's number")
    return True


def write_files(git_dir: Path, commit: str, *, path: str, into: Path) -> None:
    """Write the files below a path as they were committed; all files where it is a file itself.

    Raises GitFailure; TaskError for what a snapshot cannot hold: submodules, files in a LFS.
    """
    listed = git(["ls-tree", "-r", "-z", commit, *(["--", path] if path else [])], git_dir=git_dir)
    entries = [entry.partition(b"\t") for entry in listed.split(b"\0") if entry]
    is_file = len(entries) == 1 and entries[0][2].decode(errors="replace") == path
    modules = [name.decode(errors="replace") for about, _, name in entries if b" commit " in about]
    if modules:
        raise TaskError(
            f"commit {commit}: {modules[0]} is a submodule, whose files are elsewhere; "
            "name a path without it, and its own repository as another source"
        )
    if path and not is_file:
        (git_dir / "info").mkdir(exist_ok=True)
        pattern = re.sub(r"([\\*?\[\] ])", r"\\\1", path)
        (git_dir / "info" / "sparse-checkout").write_text(f"/{pattern}/\n")
        git(["config", "core.sparseCheckout", "true"], git_dir=git_dir)
        git(["config", "core.sparseCheckoutCone", "false"], git_dir=git_dir)
    # Of all ways to write files, this one fetches what is missing in one go.
    git([f"--work-tree={into}", "read-tree", "-m", "-u", commit], git_dir=git_dir)
    _refuse_pointers(into)


def _refuse_pointers(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LFS_BYTES:
            continue
        with file.open("rb") as content:
            if content.read(len(_LFS)) == _LFS:
                raise TaskError(
                    f"{file.relative_to(folder)} is kept in a large file storage, and only its "
                    "pointer was fetched; install git-lfs and run `git lfs install`"
                )
