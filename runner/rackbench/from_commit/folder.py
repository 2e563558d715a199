"""A folder that appears whole, or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rackbench.errors import UsageError


@contextmanager
def appearing(target: Path | None) -> Iterator[Path]:
    """A folder to write into, which gets its name once the context ends well.

    Without a name it is removed in any case. Raises UsageError where the name is taken.
    """
    if target is None:
        with tempfile.TemporaryDirectory(prefix="rackbench-task-") as passing:
            yield Path(passing)
        return
    _must_be_free(target)
    made = [path for path in (target.parent, *target.parent.parents) if not path.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    is_kept = False
    try:
        work.chmod(0o755)
        yield work
        _must_be_free(target)
        work.rename(target)
        is_kept = True
    finally:
        if not is_kept:
            shutil.rmtree(work, ignore_errors=True)
            for path in made:
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()


def _must_be_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already, and nothing is overwritten")
