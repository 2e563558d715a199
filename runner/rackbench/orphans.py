"""Processes of dead runners: found by the label in their environment, and ended."""

from __future__ import annotations

import psutil

from rackbench.sandbox.owner import Owner

_LABEL = "RACKBENCH_OWNER"
_WAIT_SECONDS = 5.0


def sweep_processes() -> list[int]:
    """Kill engines whose runner is dead; those of a live one are never touched.

    Returns their pids.
    """
    orphans = [process for process in psutil.process_iter() if _is_orphan(process)]
    for process in orphans:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(orphans, timeout=_WAIT_SECONDS)
    return [process.pid for process in orphans]


def _is_orphan(process: psutil.Process) -> bool:
    try:
        label = process.environ().get(_LABEL)
    except (psutil.Error, OSError):
        return False
    maker = Owner.parse(label) if label else None
    return maker is not None and not maker.is_alive()
