"""The state before a fix as a repository of its own: one commit, and no trace of what came after."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rackbench.errors import UsageError
from rackbench.from_commit.fix import Fix, new_blobs
from rackbench.from_commit.repository import run_git

_WHO = {"NAME": "Developer", "EMAIL": "developer@example.com"}
_MESSAGE = "State of the project"
# Built files that a checkout does not have and its .gitignore may not name.
_EXCLUDED = "*.egg-info/\n__pycache__/\n.pytest_cache/\n"
_CHECKOUT = (
    "core.autocrlf=false",
    "core.symlinks=true",
    "core.logAllRefUpdates=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
)


@dataclass(frozen=True, slots=True)
class Cut:
    """What was cut."""

    objects: frozenset[str]
    """Ids of everything in the new repository."""
    submodules: tuple[str, ...]
    """Paths whose content is not part of it."""
    size_bytes: int


def write_cut(fix: Fix, target: Path) -> Cut:
    """Write an archive of the work tree before the fix, with a `.git` of a single commit.

    The same fix gives the same bytes. Raises UsageError where content of the fix would be in it.
    """
    with tempfile.TemporaryDirectory(prefix="rackbench-cut-") as work:
        top = Path(work) / "tree"
        _make_repository(fix, top)
        objects = frozenset(
            _in(top, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
        )
        if leaked := objects & {fix.commit, *new_blobs(fix)}:
            raise UsageError(f"the cut history of {fix.short} still holds {min(leaked)}")
        seconds = int(fix.date.timestamp())
        target.write_bytes(_packed(top, seconds))
    return Cut(
        objects=objects,
        submodules=tuple(e.path for e in fix.repository.files(fix.parent) if e.is_submodule),
        size_bytes=target.stat().st_size,
    )


def _make_repository(fix: Fix, top: Path) -> None:
    source = fix.repository
    date = f"{int(fix.date.timestamp())} +0000"
    env = {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": source.text(
            "rev-parse", "--path-format=absolute", "--git-path", "objects"
        )
    }
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_{key}": value for key, value in _WHO.items()}
        env[f"GIT_{who}_DATE"] = date
    kind = source.text("rev-parse", "--show-object-format")
    top.mkdir()
    run_git(["init", "-q", "--template=", "-b", "main", f"--object-format={kind}"], at=top)
    tree = f"{fix.parent}^{{tree}}"
    commit = run_git(["commit-tree", tree, "-m", _MESSAGE], at=top, env=env).decode().strip()
    # Everything that the commit needs, and nothing else of the lent objects.
    pack = top / ".git" / "objects" / "pack" / "pack"
    run_git(
        ["pack-objects", "-q", "--revs", "--threads=1", str(pack)],
        at=top,
        stdin=f"{commit}\n".encode(),
        env=env,
    )
    for loose in (top / ".git" / "objects").glob("[0-9a-f][0-9a-f]/*"):
        loose.unlink()
        loose.parent.rmdir()
    run_git(["update-ref", "refs/heads/main", commit], at=top)
    settings = [part for setting in _CHECKOUT for part in ("-c", setting)]
    run_git([*settings, "reset", "-q", "--hard", "main"], at=top)
    (top / ".git" / "ORIG_HEAD").unlink(missing_ok=True)
    shutil.rmtree(top / ".git" / "logs", ignore_errors=True)
    # Times and inodes of this machine; the first `git status` writes it anew.
    (top / ".git" / "index").unlink(missing_ok=True)
    run_git(["read-tree", "main"], at=top)
    for key, value in _WHO.items():
        run_git(["config", f"user.{key.lower()}", value], at=top)
    (top / ".git" / "info").mkdir(exist_ok=True)
    (top / ".git" / "info" / "exclude").write_text(_EXCLUDED)


def _in(top: Path, *arguments: str) -> str:
    return run_git([*arguments], at=top).decode()


def _packed(top: Path, seconds: int) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in _walk(top):
            entry = archive.gettarinfo(path, path.relative_to(top).as_posix())
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = seconds
            if entry.isfile():
                entry.mode = 0o755 if entry.mode & 0o100 else 0o644
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                entry.mode = 0o777 if entry.issym() else 0o755
                archive.addfile(entry)
    return buffer.getvalue()


def _walk(top: Path) -> Iterator[Path]:
    yield from sorted(path for path in top.rglob("*"))
