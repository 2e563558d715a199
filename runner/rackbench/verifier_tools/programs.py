"""Programs of this machine that are lent with all they are linked to, so that they run anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from rackbench.verifier_tools import elf


def add_programs(names: Sequence[str], folder: Path) -> list[str]:
    """Copy programs, unless they are there; names of those that this machine has not.

    Each is started through the loader that lies with its libraries, never by itself: an image's
    own libraries may be older.
    """
    absent = []
    for name in names:
        if (folder / name).exists():
            continue
        found = shutil.which(name)
        program = Path(found).resolve() if found else None
        loader = elf.loader(program) if program and elf.is_elf(program) else None
        if program is None or loader is None:
            absent.append(name)
            continue
        (folder / "lib").mkdir(parents=True, exist_ok=True)
        for library, place in {**elf.linked([program]), "ld.so": loader}.items():
            _copy(place, folder / "lib" / library)
        _copy(program, folder / name)
    return absent


def _copy(source: Path, target: Path) -> None:
    if not target.exists():
        unfinished = target.with_name(f".{target.name}")
        shutil.copy2(source.resolve(), unfinished)
        unfinished.replace(target)
