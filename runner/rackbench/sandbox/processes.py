"""The processes of a container: listed, and killed as whole trees.

Ending an exec's client, `timeout -k` and Ctrl-C all leave processes behind; what counts is the
container's own process table. A command's tree is everything that started since the command did
and does not descend from something older: a daemonised child counts, a service's new worker does
not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_ROUNDS = 200
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# Passes over the container's own process table until one finds nothing; a single one to count.
# One shell does it all, since a tree may fork faster than commands can be sent.
_SINCE_INSIDE = """
since=$1; keep=" $2 "; what=$3; killed=0; passes=0
while [ $passes -lt 500 ]; do
  passes=$((passes + 1)); found=0
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    case "$keep" in *" $pid "*) continue ;; esac
    [ "$pid" = $$ ] && continue
    read -r line 2>/dev/null <"$folder/stat" || continue
    set -- ${line##*)}
    case $1 in Z | X) continue ;; esac
    [ "${20}" -ge "$since" ] || continue
    if [ $what = count ] || kill -9 "$pid" 2>/dev/null; then found=$((found + 1)); fi
  done
  killed=$((killed + found))
  if [ $found = 0 ] || [ $what = count ]; then break; fi
done
echo $killed
"""
_LIST_INSIDE = "for f in /proc/[0-9]*; do p=${f#/proc/}; [ $p = $$ ] || echo $p; done"


class Processes(Protocol):
    """The processes of one container, however they are reached."""

    def pids(self) -> frozenset[int]:
        """All there are, in whatever numbering this way of reaching them uses."""
        ...

    def count_since(self, since_ticks: int, *, keep: frozenset[int]) -> int:
        """How many there are that started since a moment, services' own children left out."""
        ...

    def kill_since(self, since_ticks: int, *, keep: frozenset[int]) -> int:
        """Kill every tree that started since a moment; returns how many processes that were."""
        ...


def now_ticks() -> int:
    """The present moment as the kernel counts the start of processes: ticks since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND)


@dataclass(frozen=True, slots=True)
class Process:
    """One row of a process table."""

    pid: int
    parent: int
    started_ticks: int
    """Since boot; the kernel's field `starttime`."""


@dataclass(frozen=True, slots=True)
class CgroupProcesses:
    """As the host sees them, through the container's cgroup: nothing inside can lie."""

    cgroup: Path

    def pids(self) -> frozenset[int]:
        """By the host's numbers; zombies left out."""
        return frozenset(self._table())

    def count_since(self, since_ticks: int, *, keep: frozenset[int]) -> int:
        """Count from the host."""
        return len(started_since(self._table(), since_ticks, keep))

    def kill_since(self, since_ticks: int, *, keep: frozenset[int]) -> int:
        """Kill from the host, until nothing is left: a dying tree may fork."""
        killed: set[int] = set()
        for _ in range(_ROUNDS):
            victims = started_since(self._table(), since_ticks, keep)
            if not victims:
                break
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed |= victims
            time.sleep(0.001)  # the kernel needs a moment before the table shows it
        return len(killed)

    def _table(self) -> dict[int, Process]:
        table: dict[int, Process] = {}
        try:
            pids = (self.cgroup / "cgroup.procs").read_text().split()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return table  # the container is gone, and everything in it
            raise
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
                if stat.rpartition(")")[2].split()[0] not in "ZX":
                    table[int(pid)] = parse_stat(stat)
        return table


@dataclass(frozen=True, slots=True)
class InsideProcesses:
    """As a shell inside the container sees them: for a runner that is not root.

    Coarser than from the host: what an older service started since the moment dies too.
    """

    run_as_root: Callable[[list[str]], bytes]

    def pids(self) -> frozenset[int]:
        """By the container's numbers."""
        return frozenset(map(int, self.run_as_root(["sh", "-c", _LIST_INSIDE]).split()))

    def kill_since(self, since_ticks: int, *, keep: frozenset[int]) -> int:
        """Kill by the container's own shell."""
        return self._since(since_ticks, keep, "kill")

    def count_since(self, since_ticks: int, *, keep: frozenset[int]) -> int:
        """Count by the container's own shell."""
        return self._since(since_ticks, keep, "count")

    def _since(self, since_ticks: int, keep: frozenset[int], what: str) -> int:
        kept = " ".join(map(str, keep))
        argv = ["sh", "-c", _SINCE_INSIDE, "sh", str(since_ticks), kept, what]
        return int(self.run_as_root(argv).split()[-1])


def started_since(
    processes: Mapping[int, Process], since_ticks: int, keep: frozenset[int]
) -> set[int]:
    """Everything that started since a moment and does not descend from something older."""
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
