"""The verifier phase: fresh folders, the task's own tests, and a reward read strictly."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import anyio

from rackbench.sandbox import processes
from rackbench.sandbox.container import Container, Listing
from rackbench.verdict import FaultError
from rackbench_harnesses.ports import Command, SandboxError
from rackbench_results.outcomes import Reason
from rackbench_tasks import Reward, RewardError, Task, read_reward

_FOLDER = "/logs/verifier"
_TESTS = "/tests"
_OUTPUT = f"{_FOLDER}/test-stdout.txt"
_RESET_SECONDS = 60.0
_WATCH_SECONDS = 0.4
_LIMIT_BYTES = 64 * 1024 * 1024
_REWARD_FILES = ("reward.txt", "reward.json")


async def reset_folders(sandbox: Container, user: str) -> int:
    """Make the verifier's folders new and its own; whatever the agent put there is gone.

    Returns how many processes the agent left running: services stay, since the tests may need
    them. Raises FaultError: tampered, where something of the agent's is there, or comes back.
    """
    await _clear(sandbox, user)
    lingering = await sandbox.lingering()
    if lingering:
        await anyio.sleep(_WATCH_SECONDS)
    await _must_be_clear(sandbox)
    return lingering


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
    await _must_be_clear(sandbox)


async def _clear(sandbox: Container, user: str) -> None:
    script = "; ".join(
        [
            f"rm -rf {_FOLDER} {_TESTS}",
            f"mkdir -p {_FOLDER}",
            f"chown {shlex.quote(user)} {_FOLDER}",
            f"chmod 755 {_FOLDER}",
        ]
    )
    await sandbox.run(
        Command(["sh", "-c", script], user="0", cwd="/", timeout_seconds=_RESET_SECONDS)
    )


async def _must_be_clear(sandbox: Container) -> None:
    # The sandbox's own `rm` may be the agent's work; the engine's view is not.
    for path, may_exist in ((_FOLDER, True), (_TESTS, False)):
        seen = await _look(sandbox, path)
        if seen is None:
            if may_exist:
                raise FaultError(Reason.TAMPERED, f"{path} could not be made anew")
        elif not may_exist or not seen.is_folder or seen.files or seen.others:
            left = ", ".join([*seen.files, *seen.others][:5]) or "the agent's own"
            raise FaultError(Reason.TAMPERED, f"{path} is not the verifier's alone: {left}")


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
