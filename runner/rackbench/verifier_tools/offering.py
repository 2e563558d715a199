"""Tools that appear in a folder of an attempt for the verifier phase, and go again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rackbench.verifier_tools.index import INDEX_NAME
from rackbench.verifier_tools.tools import VerifierTools


def offer(tools: VerifierTools, at: Path) -> None:
    """Make the tools appear in an empty folder of the host, as hard links where it can be.

    The folder is what a sandbox has mounted read-only: a link shares its content with the tools, so
    nothing but that mount keeps a sandbox from writing to them.
    """
    made: set[str] = set()
    source, target = str(tools.folder), str(at)
    for path in (INDEX_NAME, *tools.files):
        parent = os.path.dirname(path)  # noqa: PTH120  # thousands of times: strings are faster
        if parent not in made:
            os.makedirs(f"{target}/{parent}", exist_ok=True)  # noqa: PTH103
            made.add(parent)
        _place(f"{source}/{path}", f"{target}/{path}")


def withdraw(at: Path) -> None:
    """Take back what was offered; the folder itself stays, since it is mounted."""
    for child in at.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()


def _place(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError:
        # Another file system, or too many links, or another owner's file.
        shutil.copy2(source, target, follow_symlinks=False)
