"""Packages for a sandbox, taken once as wheels, so that building its image needs no network."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackbench.errors import PrerequisiteError, UsageError
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
    requirements: Sequence[str],
    interpreter: Interpreter,
    folder: Path,
    *,
    pins: Sequence[str],
    without: str | None,
) -> list[str]:
    """Put wheels of requirements and of what they need into a folder; returns their names.

    Uses pip as this machine has it configured; `pins` are taken as far as they can be had. `without` is the project under test, which another
    package may ask for: a later release of it would hold the answer. Raises UsageError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = _pip_download(requirements, interpreter, folder, pins=pins)
    if done.returncode and pins:
        done = _pip_download(requirements, interpreter, folder, pins=())
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


def _pip_download(
    requirements: Sequence[str], interpreter: Interpreter, folder: Path, *, pins: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    platforms = [
        f"--platform={name}_{interpreter.machine}"
        for name in _MANYLINUX
        if _runs(name, interpreter)
    ]
    with tempfile.TemporaryDirectory(prefix="rackbench-pins-") as work:
        constraints = Path(work, "constraints.txt")
        constraints.write_text("\n".join(pins))
        command = [
            *_pip(), "download", "--quiet", "--disable-pip-version-check",
            "--only-binary=:all:", "--implementation=cp",
            f"--python-version={interpreter.version}", *platforms, "--platform=any",
            f"--constraint={constraints}", f"--dest={folder}", "pip", *requirements,
        ]  # fmt: skip
        try:
            return subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"pip did not get the packages within {_SECONDS} s") from error


def _pip() -> list[str]:
    """Our own environment may have been made without pip."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    program = shutil.which("pip3") or shutil.which("pip")
    if program is None:
        raise PrerequisiteError("there is no pip here to get packages with; install it")
    return [program]


def _runs(platform: str, interpreter: Interpreter) -> bool:
    if not platform.startswith("manylinux_"):
        return True
    _, major, minor = platform.split("_")
    return (int(major), int(minor)) <= interpreter.glibc
