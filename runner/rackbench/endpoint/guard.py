"""A small process between the runner and an engine: whatever dies, the engine does not stay.

Run as `python -S guard.py GRACE_SECONDS COMMAND…`, with a pipe as standard input. The end of that
pipe, closed by the runner or by its death, means stop. Uses the standard library alone, so that it
starts at once and stays small. Its first line of output is the engine's pid; its exit code is the
engine's, or 0 after a stop that was asked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.1
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108  # where an engine killed hard leaves its segments


def main(argv: list[str]) -> int:
    """Start the engine, wait for its end or for ours, and leave nothing behind."""
    grace_seconds, command = float(argv[0]), argv[1:]
    # Orphans of the engine's group come to us, so that we see the last of them go.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # only the pipe says stop
    engine = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_in_engine,  # noqa: PLW1509  # this process has a single thread
    )
    print(engine.pid, flush=True)  # noqa: T201
    sys.stdout.close()
    asked = _wait_for_end(engine)
    segments = _shared_memory_of(engine.pid)
    if asked:
        with contextlib.suppress(ProcessLookupError):
            engine.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(grace_seconds)
    _empty_group(engine.pid)
    code = engine.wait()
    for path in segments:
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
    return 0 if asked else code


def _in_engine() -> None:
    """Undo what the guard needs and the engine must not inherit; die with the guard."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wait_for_end(engine: subprocess.Popen[bytes]) -> bool:
    """True: we were asked to stop; False: the engine ended by itself."""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            return engine.poll() is None
        if engine.poll() is not None:
            return False


def _empty_group(group: int) -> None:
    """Kill what is left of the engine's process group, and see it gone."""
    while True:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def _shared_memory_of(group: int) -> set[str]:
    """Shared-memory files that the group has mapped: killed hard, it does not unlink them."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if os.getpgid(int(entry.name)) != group:
                continue
            for line in (entry / "maps").read_text().splitlines():
                path = line[line.find("/") :] if "/" in line else ""
                if path.startswith(_SHARED_MEMORY) and not path.endswith("(deleted)"):
                    found.add(path)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
