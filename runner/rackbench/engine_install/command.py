"""Programs that an installation runs, with their last words where they fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rackbench.errors import PrerequisiteError

_LAST_LINES = 15


def run_step(
    command: Sequence[str | Path], *, what: str, env: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end; what it wrote.

    Raises PrerequisiteError with the end of its output.
    """
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, **(env or {})},
    )
    if done.returncode != 0:
        last = "\n  ".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
        raise PrerequisiteError(
            f"{what} failed: {command[0]} ended with {done.returncode}\n  {last}\n"
            "what was made so far is kept; mend the cause and run "
            "`rackbench engine install` again"
        )
    return done.stdout


def find_uv() -> Path | None:
    """The program `uv`: beside this interpreter, or on the path."""
    beside = Path(sys.executable).with_name("uv")
    if beside.is_file():
        return beside
    elsewhere = shutil.which("uv")
    return Path(elsewhere) if elsewhere else None


def uv() -> Path:
    """The program `uv`. Raises PrerequisiteError."""
    found = find_uv()
    if found is None:
        raise PrerequisiteError(
            "there is no uv beside this Python or on the path; "
            "run: python -m pip install 'rackbench[engine]'"
        )
    return found


def uv_install(python: Path, *arguments: str | Path, what: str) -> None:
    """`uv pip install` for an interpreter; uv does not read pip's settings, so they are passed on.

    Raises PrerequisiteError.
    """
    command: list[str | Path] = [uv(), "pip", "install", "--python", python]
    for links in os.environ.get("PIP_FIND_LINKS", "").split():
        command += ["--find-links", links]
    env = {"UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "180")}
    index = os.environ.get("PIP_INDEX_URL")
    if index and "UV_DEFAULT_INDEX" not in os.environ:
        env["UV_DEFAULT_INDEX"] = index
    run_step([*command, *arguments], what=what, env=env)
