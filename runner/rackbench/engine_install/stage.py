"""A folder that is made whole or made again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MARK = ".complete"


@contextmanager
def stage(folder: Path, recipe: str) -> Iterator[bool]:
    """Tell whether the folder must be made; mark it as made by this recipe at a good end.

    What an interrupted or other recipe left there is removed first.
    """
    mark = folder / _MARK
    if mark.is_file() and mark.read_text() == recipe:
        yield False
        return
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    yield True
    mark.write_text(recipe)
