"""Where fetched sources are kept, and where mirrors of repositories lie."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rackbench_tasks.digest import folder_digest
from rackbench_tasks.problem import TaskError

_TREE = "tree"
_DIGEST = "digest"


@dataclass(frozen=True, slots=True)
class Places:
    """Folders of this machine that sources are taken from."""

    cache: Path
    """Fetched sources, by content."""
    mirrors: Path | None = None
    """Local mirrors of repositories: `<host>/<path>`, each with or without `.git`."""


def places_of(env: Mapping[str, str]) -> Places:
    """The folders that variables name.

    RACKBENCH_CACHE, else XDG_CACHE_HOME, else the user's own cache; RACKBENCH_GIT_MIRRORS.
    """
    own = env.get("RACKBENCH_CACHE")
    if own:
        cache = Path(own).expanduser()
    else:
        cache = Path(env.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rackbench"
    mirrors = env.get("RACKBENCH_GIT_MIRRORS")
    return Places(cache / "sources", Path(mirrors).expanduser() if mirrors else None)


def kept(cache: Path, key: str) -> Path | None:
    """What is kept under a key, unchanged; None where there is nothing.

    Raises TaskError where it was changed since: a task would not be what its origin says.
    """
    entry = cache / key
    try:
        expected = (entry / _DIGEST).read_text().strip()
    except FileNotFoundError:
        return None
    found = folder_digest(entry / _TREE)
    if found != expected:
        raise TaskError(
            f"{entry / _TREE}: was changed since it was fetched (digest {found}, was {expected}); "
            f"remove {entry} to fetch it again, or copy it elsewhere and name that folder"
        )
    return entry / _TREE


@contextmanager
def keeping(cache: Path, key: str) -> Iterator[Path]:
    """An empty folder to fill; kept under the key once the block ends without an error.

    `kept` gives it then. Raises TaskError where the cache cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(dir=cache, prefix=".part-")
    except OSError as error:
        raise TaskError(
            f"{cache}: cannot be written: {error.strerror}; set RACKBENCH_CACHE to another folder"
        ) from error
    with made as part:
        entry = Path(part) / "entry"
        tree = entry / _TREE
        tree.mkdir(parents=True)
        yield tree
        (entry / _DIGEST).write_text(folder_digest(tree) + "\n")
        try:
            entry.rename(cache / key)
        except OSError as error:
            # Somebody else was faster; what they kept under this key has the same content.
            if not (cache / key / _DIGEST).exists():
                raise TaskError(f"{cache / key}: cannot be written: {error.strerror}") from error


def machine_places() -> Places:
    """The folders that this process's environment names."""
    return places_of(os.environ)
