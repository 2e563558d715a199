"""The processes of a container: listed, and killed as whole trees.

Ending an exec's client, `timeout -k` and Ctrl-C all leave processes behind; what counts is the
container's own process table. A command's tree is everything that started since the command did
and does not descend from something older: a daemonised child counts, a service's new worker does
not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_ROUNDS = 20
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One row of a process table."""

    pid: int
    parent: int
    started_ticks: int
    """Since boot; the kernel's field `starttime`."""


class ProcessTable(Protocol):
    """The processes of one container, however they are reached."""

    def read(self) -> dict[int, Process]:
        """All processes, by pid."""
        ...

    def kill(self, pids: Iterable[int]) -> None:
        """SIGKILL; pids that are gone are ignored."""
        ...


def now_ticks() -> int:
    """The present moment in the unit of `Process.started_ticks`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND)


def kill_since(table: ProcessTable, since_ticks: int, *, keep: frozenset[int]) -> int:
    """Kill everything that started since a moment and does not belong to something older.

    Returns how many were killed. Repeats until nothing is left, since a dying tree may fork.
    """
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        victims = _started_since(table.read(), since_ticks, keep)
        if not victims:
            break
        table.kill(victims)
        killed |= victims
        time.sleep(0.002)  # the kernel needs a moment before the table shows it
    return len(killed)


def _started_since(
    processes: Mapping[int, Process], since_ticks: int, keep: frozenset[int]
) -> set[int]:
    victims = set()
    for process in processes.values():
        if process.pid in keep or process.started_ticks < since_ticks:
            continue
        ancestor = processes.get(process.parent)
        while ancestor and ancestor.pid not in keep and ancestor.started_ticks >= since_ticks:
            ancestor = processes.get(ancestor.parent)
        if ancestor is None or ancestor.pid in keep:
            victims.add(process.pid)
    return victims


def parse_stat(line: str) -> Process:
    """One line of /proc/PID/stat; the command in brackets may hold anything, brackets too."""
    head, _, tail = line.rpartition(")")
    fields = tail.split()
    return Process(int(head.split(" ", 1)[0]), int(fields[1]), int(fields[19]))


@dataclass(frozen=True, slots=True)
class CgroupProcesses:
    """The table as the host sees it, through the container's cgroup: nothing inside can lie."""

    cgroup: Path

    def read(self) -> dict[int, Process]:
        """All processes, by the host's pid; zombies left out."""
        table = {}
        for line in (self.cgroup / "cgroup.procs").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                stat = Path(f"/proc/{line}/stat").read_text(errors="replace")
                if stat.rpartition(")")[2].split()[0] not in "ZX":
                    process = parse_stat(stat)
                    table[process.pid] = process
        return table

    def kill(self, pids: Iterable[int]) -> None:
        """SIGKILL from the host."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class InsideProcesses:
    """The table as a shell inside the container sees it: for a runner that is not root."""

    run_as_root: Callable[[list[str]], bytes]

    def read(self) -> dict[int, Process]:
        """All processes, by the container's pid; the reading shell is left out."""
        output = self.run_as_root(["sh", "-c", "echo $$; cat /proc/[0-9]*/stat 2>/dev/null; true"])
        me, *lines = output.decode(errors="replace").splitlines()
        table = {}
        for line in lines:
            if ") Z " in line:
                continue
            process = parse_stat(line)
            if str(process.pid) != me and str(process.parent) != me:
                table[process.pid] = process
        return table

    def kill(self, pids: Iterable[int]) -> None:
        """SIGKILL by the container's own shell."""
        self.run_as_root(["sh", "-c", f"kill -9 {' '.join(map(str, pids))} 2>/dev/null; true"])


def cgroup_of(pid: int, controller: str) -> Path | None:
    """The folder of a process's cgroup; None where this host does not show it to us.

    Under cgroup v1 each controller has a hierarchy of its own, under v2 all share one.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except (FileNotFoundError, PermissionError):
        return None
    by_controller = {}
    for line in lines:
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            by_controller[name] = path.lstrip("/")
    if controller in by_controller:
        folder = Path("/sys/fs/cgroup") / controller / by_controller[controller]
    else:
        folder = Path("/sys/fs/cgroup") / by_controller.get("", "")
    return folder if (folder / "cgroup.procs").is_file() else None


def oom_kills(memory_cgroup: Path) -> int:
    """How many processes the kernel killed for memory: an exec'd one does not show in Docker."""
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(FileNotFoundError):
            for line in (memory_cgroup / name).read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
    return 0
