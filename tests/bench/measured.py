"""A program run to its end, with what it cost: wall time, CPU of its whole tree, peak memory."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of a program cost."""

    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    """Of the largest process of the tree."""
    output: str


class ProgramFailedError(RuntimeError):
    """The program did not do what is measured, so there is nothing to report."""


def measure(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path) -> Measured:
    """Run a program; raises ProgramFailedError with its last words where it fails."""
    log = cwd / "output.txt"
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
        _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    if process.returncode:
        raise ProgramFailedError(f"{argv[:3]}… ended with {process.returncode}:\n{text[-3000:]}")
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text)


def own_cpu_seconds() -> float:
    """CPU of this process and its ended children."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
