"""The verifier phase: fresh folders, the task's own tests, and a reward read strictly."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from rackbench.sandbox import processes
from rackbench.sandbox.container import Container, Listing
from rackbench.verdict import FaultError
from rackbench_harnesses.ports import Command, SandboxError
from rackbench_results.outcomes import Reason
from rackbench_tasks import Reward, RewardError, Task, read_reward

_LOGS = "/logs"
_FOLDER = f"{_LOGS}/verifier"
_TESTS = "/tests"
_SOLUTION = "/solution"
_OUTPUT = f"{_FOLDER}/test-stdout.txt"
_RESET_SECONDS = 60.0
_WATCH_SECONDS = 0.4
_LIMIT_BYTES = 256 * 1024 * 1024
_REWARD_FILES = ("reward.txt", "reward.json")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What an agent left behind."""

    processes: int
    """Still running: services, or worse."""
    files: Mapping[str, bytes]
    """Below /logs, by relative path."""
    note: str | None
    """What could not be kept."""


async def reset_folders(sandbox: Container, user: str, *, since_ticks: int) -> Leftovers:
    """Make the verifier's folders new and its own; whatever the agent put there is gone.

    Services that the agent started since a moment stay, since the tests may need them. Raises FaultError: tampered, where something of
    the agent's is there, or comes back.
    """
    await _clear(sandbox, user)
    lingering = await sandbox.count_since(since_ticks)
    if lingering:
        await anyio.sleep(_WATCH_SECONDS)
    try:
        logs = await sandbox.listing(_LOGS, limit_bytes=_LIMIT_BYTES)
    except SandboxError as error:
        await _must_be_clear(sandbox, await _look(sandbox, _FOLDER), "")
        return Leftovers(lingering, {}, f"{_LOGS} was not kept: {error}")
    await _must_be_clear(sandbox, logs, "verifier")
    files = logs.files if logs else {}
    others = logs.others if logs else ()
    note = f"{len(others)} links and devices left out of {_LOGS}" if others else None
    return Leftovers(lingering, files, note)


async def run_verifier(sandbox: Container, task: Task, user: str, keep: Path) -> Reward:
    """Upload the tests, run them to their end, kill what they left, read the reward.

    Everything the verifier wrote is kept in a folder of the attempt. Its exit code means nothing.
    Raises FaultError: verifier.
    """
    await sandbox.upload_folder(task.verifier.tests, _TESTS)
    since_ticks = processes.now_ticks()
    done = await sandbox.run(
        Command(
            # Into a file: a child that outlives the script must not hold the engine's stream.
            ["sh", "-c", f"{_TESTS}/test.sh >{_OUTPUT} 2>&1"],
            env=task.verifier.env,
            user=user,
            timeout_seconds=task.verifier.timeout_seconds,
        )
    )
    # A child that still writes could change the reward while it is read.
    await sandbox.kill_since(since_ticks)
    files = await _written(sandbox)
    _keep(files, keep)
    if done.timed_out:
        raise FaultError(
            Reason.VERIFIER, f"timed out after {task.verifier.timeout_seconds:g} s and was killed"
        )
    try:
        return read_reward({name: files[name] for name in _REWARD_FILES if name in files})
    except RewardError as error:
        raise FaultError(Reason.VERIFIER, str(error)) from error


async def nobody_else_writes(sandbox: Container, user: str) -> None:
    """After the reward is read: what the agent left running must not have a hand in it.

    With tests and agent in one container this finds who keeps writing, not who wrote once; only a
    verifier in a container of its own is proof against that. Raises FaultError: tampered.
    """
    await _clear(sandbox, user)
    await anyio.sleep(_WATCH_SECONDS)
    await _must_be_clear(sandbox, await _look(sandbox, _FOLDER), "")


async def _clear(sandbox: Container, user: str) -> None:
    script = "; ".join(
        [
            f"rm -rf {_FOLDER} {_TESTS} {_SOLUTION}",
            f"mkdir -p {_FOLDER}",
            f"chown {shlex.quote(user)} {_FOLDER}",
            f"chmod 755 {_FOLDER}",
        ]
    )
    await sandbox.run(
        Command(["sh", "-c", script], user="0", cwd="/", timeout_seconds=_RESET_SECONDS)
    )


async def _must_be_clear(sandbox: Container, seen: Listing | None, name: str) -> None:
    """The verifier's folder, called `name` in what was seen, is a folder and empty; no tests yet.

    The sandbox's own `rm` may be the agent's work; the engine's view is not.
    """
    if seen is None or not seen.is_folder or (name and name not in seen.folders):
        raise FaultError(Reason.TAMPERED, f"{_FOLDER} could not be made anew")
    inside = f"{name}/" if name else ""
    left = [path for path in (*seen.files, *seen.others) if path.startswith(inside)]
    if left:
        shown = ", ".join(left[:5])
        raise FaultError(Reason.TAMPERED, f"{_FOLDER} is not the verifier's alone: {shown}")
    if await _look(sandbox, _TESTS) is not None:
        raise FaultError(Reason.TAMPERED, f"{_TESTS} could not be cleared")


async def _written(sandbox: Container) -> dict[str, bytes]:
    try:
        return await sandbox.download(_FOLDER, limit_bytes=_LIMIT_BYTES)
    except SandboxError:
        # Too much of it: the reward alone is what decides.
        files: dict[str, bytes] = {}
        for name in _REWARD_FILES:
            seen = await _look(sandbox, f"{_FOLDER}/{name}")
            if seen:
                files |= seen.files
        return files


async def _look(sandbox: Container, path: str) -> Listing | None:
    return await sandbox.listing(path, limit_bytes=_LIMIT_BYTES)


def _keep(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
