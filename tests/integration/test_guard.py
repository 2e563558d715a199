"""Whatever dies, the engine does not stay: real processes, really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rackbench.endpoint import guard

# An engine with a worker, both of which ignore to be asked.
STUBBORN_ENGINE = textwrap.dedent(
    """
    import signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    worker = subprocess.Popen([sys.executable, "-c", code])
    print("worker", worker.pid, file=sys.stderr, flush=True)
    time.sleep(300)
    """
)


class Guarded:
    """A guard with its engine, and the pids of all three processes."""

    def __init__(self, log: Path, engine: str = STUBBORN_ENGINE, grace: float = 0.3) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.guard = subprocess.Popen(
                [sys.executable, "-S", guard.__file__, str(grace), sys.executable, "-c", engine],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.guard.stdout is not None
        self.engine_pid = int(self.guard.stdout.readline())

    def worker_pid(self) -> int:
        for _ in range(200):
            words = self.log.read_text().split()
            if words[:1] == ["worker"] and len(words) > 1:
                return int(words[1])
            time.sleep(0.05)
        pytest.fail("the worker never started")

    def close(self) -> int:
        assert self.guard.stdin is not None
        self.guard.stdin.close()
        return self.guard.wait(20)


def wait_gone(*pids: int) -> None:
    """Until none of them runs; a zombie runs no more."""
    for _ in range(400):
        alive = [p for p in pids if psutil.pid_exists(p) and is_running(p)]
        if not alive:
            return
        time.sleep(0.05)
    pytest.fail(f"still there: {alive}")


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path / "log")
    yield made
    made.guard.stdin.close()
    made.guard.stdout.close()
    made.guard.wait(20)
    for pid in (made.engine_pid,):
        if psutil.pid_exists(pid) and is_running(pid):
            os.killpg(pid, signal.SIGKILL)


def test_the_end_of_the_pipe_ends_the_whole_group(guarded: Guarded) -> None:
    worker = guarded.worker_pid()
    assert guarded.close() == 0
    wait_gone(guarded.engine_pid, worker)


def test_signals_to_the_guard_do_not_end_it(guarded: Guarded) -> None:
    worker = guarded.worker_pid()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guarded.guard.pid, name)
    time.sleep(0.3)
    assert guarded.guard.poll() is None
    assert is_running(guarded.engine_pid)
    assert is_running(worker)


def test_an_engine_killed_hard_leaves_no_worker(guarded: Guarded) -> None:
    worker = guarded.worker_pid()
    os.kill(guarded.engine_pid, signal.SIGKILL)
    assert guarded.guard.wait(20) == 256 - signal.SIGKILL
    wait_gone(worker)


def test_a_runner_killed_hard_takes_the_engine_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    runner = textwrap.dedent(
        f"""
        import subprocess, sys, time
        g = subprocess.Popen([sys.executable, "-S", {guard.__file__!r}, "0.3", sys.executable, "-c",
            {STUBBORN_ENGINE!r}], stdin=subprocess.PIPE, stderr=open({str(log)!r}, "wb"),
            stdout=subprocess.PIPE, start_new_session=True)
        print(g.pid, int(g.stdout.readline()), flush=True)
        time.sleep(300)
        """
    )
    with subprocess.Popen([sys.executable, "-c", runner], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        guard_pid, engine_pid = map(int, process.stdout.readline().split())
        for _ in range(200):
            if "worker" in log.read_text():
                break
            time.sleep(0.05)
        worker_pid = int(log.read_text().split()[1])
        process.kill()
    wait_gone(guard_pid, engine_pid, worker_pid)


def test_the_engines_own_exit_code_is_passed_on(tmp_path: Path) -> None:
    made = Guarded(tmp_path / "log", engine="raise SystemExit(3)")
    assert made.guard.wait(20) == 3
    made.guard.stdin.close()
    made.guard.stdout.close()


def test_shared_memory_of_a_killed_engine_is_removed(tmp_path: Path) -> None:
    engine = textwrap.dedent(
        """
        import mmap, os, sys, time
        path = f"/dev/shm/rackbench-test-{os.getpid()}"
        file = open(path, "w+b"); file.truncate(4096)
        held = mmap.mmap(file.fileno(), 4096)
        print(path, file=sys.stderr, flush=True)
        time.sleep(300)
        """
    )
    made = Guarded(tmp_path / "log", engine=engine)
    for _ in range(200):
        if said := (tmp_path / "log").read_text().strip():
            break
        time.sleep(0.05)
    assert Path(said).exists()
    assert made.close() == 0
    made.guard.stdout.close()
    assert not Path(said).exists()
