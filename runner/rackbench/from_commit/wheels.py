"""Packages for a sandbox, taken once as wheels, so that building its image needs no network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackbench.errors import UsageError
from rackbench.from_commit.python_project import normalised

_MANYLINUX = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
_SECONDS = 600
_LAST_LINES = 6


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of an image."""

    version: str
    """Such as 3.11."""
    machine: str
    """Such as x86_64."""
    glibc: tuple[int, int] = (2, 34)


def download(
    requirements: Sequence[str], interpreter: Interpreter, folder: Path, *, without: str | None
) -> list[str]:
    """Put wheels of requirements and of what they need into a folder; returns their names.

    Uses pip as this machine has it configured. `without` is the project under test, which another
    package may ask for: a later release of it would hold the answer. Raises UsageError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    platforms = [
        f"--platform={name}_{interpreter.machine}"
        for name in _MANYLINUX
        if _runs(name, interpreter)
    ]
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--only-binary=:all:", "--implementation=cp",
        f"--python-version={interpreter.version}", *platforms, "--platform=any",
        f"--dest={folder}", "pip", *requirements,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"pip did not get the packages within {_SECONDS} s") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        shown = "\n  ".join(said[-_LAST_LINES:] or done.stderr.splitlines()[-_LAST_LINES:])
        raise UsageError(
            f"pip could not get {', '.join(requirements)} as wheels for Python "
            f"{interpreter.version}:\n  {shown}\n"
            "name what the tests need yourself: --package NAME …, or --install COMMAND"
        )
    for wheel in folder.glob("*.whl"):
        if without and normalised(wheel.name.partition("-")[0]) == without:
            wheel.unlink()
    return sorted(wheel.name for wheel in folder.glob("*.whl"))


def _runs(platform: str, interpreter: Interpreter) -> bool:
    if not platform.startswith("manylinux_"):
        return True
    _, major, minor = platform.split("_")
    return (int(major), int(minor)) <= interpreter.glibc
