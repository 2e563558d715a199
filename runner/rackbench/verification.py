"""The verifier phase: fresh folders, the task's own tests, and a reward read strictly."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from rackbench.sandbox import processes
from rackbench.sandbox.container import Container, Listing
from rackbench.verdict import FaultError
from rackbench_harnesses.ports import Command, SandboxError
from rackbench_results.outcomes import Reason
from rackbench_tasks import Reward, TaskError, VerifierPhase, read_reward
from rackbench_tasks.test_results import TestStatus, parse_output, read_ctrf, reward_of
from rackbench_tasks.verifier_setup import setup_fault

_LOGS = "/logs"
_FOLDER = f"{_LOGS}/verifier"
TESTS = "/tests"
_SOLUTION = "/solution"
_OUTPUT_FILE = "test-stdout.txt"
_CTRF_FILE = "ctrf.json"
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


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verifier made of a stage."""

    reward: Reward
    tests: Mapping[str, TestStatus] = field(default_factory=dict)


async def reset_folders(sandbox: Container, user: str, *, since_ticks: int) -> Leftovers:
    """Make the verifier's folders new and its own; whatever the agent put there is gone.

    Services that the agent started since a moment stay, since the tests may need them. Raises
    FaultError: tampered, where something of the agent's is there, or comes back.
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


async def fresh_folders(sandbox: Container, user: str, *, without: tuple[str, ...]) -> None:
    """Ready a verifier's own container: its folder made new, what artifacts replace removed."""
    gone = [f"rm -rf -- {' '.join(map(shlex.quote, without))}"] if without else []
    await _as_root(sandbox, [*gone, *_own_folder(user)])


async def run_verifier(
    sandbox: Container, verifier: VerifierPhase, user: str, keep: Path
) -> Verified:
    """Upload the tests, run them to their end, kill what they left, read the reward.

    Everything the verifier wrote is kept in a folder of the attempt. Its exit code means nothing
    where it writes a reward. Raises FaultError: verifier.
    """
    for folder in verifier.tests:
        await sandbox.upload_folder(folder, TESTS)
    if verifier.files:
        files = {f"{TESTS}/{name}": content for name, content in verifier.files.items()}
        await sandbox.upload(files, mode=0o755)
    since_ticks = processes.now_ticks()
    done = await sandbox.run(
        Command(
            # Into a file: a child that outlives the script must not hold the engine's stream.
            ["sh", "-c", f"{shlex.join(verifier.command)} >{_FOLDER}/{_OUTPUT_FILE} 2>&1"],
            env=verifier.env,
            user=user,
            timeout_seconds=verifier.timeout_seconds,
        )
    )
    # A child that still writes could change the reward while it is read.
    await sandbox.kill_since(since_ticks)
    written = await _written(sandbox)
    _keep(written, keep)
    if done.timed_out:
        raise FaultError(
            Reason.VERIFIER, f"timed out after {verifier.timeout_seconds:g} s and was killed"
        )
    return _judge(verifier, written)


async def nobody_else_writes(sandbox: Container, user: str) -> None:
    """After the reward is read: what the agent left running must not have a hand in it.

    With tests and agent in one container this finds who keeps writing, not who wrote once; only a
    verifier in a container of its own is proof against that. Raises FaultError: tampered.
    """
    await _clear(sandbox, user)
    await anyio.sleep(_WATCH_SECONDS)
    await _must_be_clear(sandbox, await _look(sandbox, _FOLDER), "")


async def clear_tests(sandbox: Container, user: str) -> None:
    """Take tests and verdict away before the agent works on."""
    await _clear(sandbox, user)


def _judge(verifier: VerifierPhase, written: Mapping[str, bytes]) -> Verified:
    output = written.get(_OUTPUT_FILE, b"").decode(errors="replace")
    tests: Mapping[str, TestStatus] = {}
    try:
        if verifier.parser:
            tests = parse_output(verifier.parser, output)
            value = reward_of(tests)
            reward = Reward(value, {"reward": value}, _OUTPUT_FILE)
        else:
            tests = _reported(written)
            rewards = {name: written[name] for name in _REWARD_FILES if name in written}
            reward = read_reward(rewards)
    except TaskError as error:
        why = setup_fault(output, tests, script=_script(verifier))
        detail = f"its set-up failed: {why}; {error}" if why else str(error)
        raise FaultError(Reason.VERIFIER, detail) from error
    if reward.value == 0 and (why := setup_fault(output, tests, script=_script(verifier))):
        raise FaultError(Reason.VERIFIER, f"its set-up failed: {why}")
    return Verified(reward, tests)


def _script(verifier: VerifierPhase) -> str:
    """The text of what runs the tests; empty where only an image has it."""
    name = verifier.command[-1].removeprefix(f"{TESTS}/")
    if name in verifier.files:
        return verifier.files[name].decode(errors="replace")
    for folder in reversed(verifier.tests):
        if (folder / name).is_file():
            return (folder / name).read_text(errors="replace")
    return ""


def _reported(written: Mapping[str, bytes]) -> Mapping[str, TestStatus]:
    """Results of single tests, where the verifier tells them: they explain, and decide nothing."""
    try:
        if _CTRF_FILE in written:
            return read_ctrf(written[_CTRF_FILE])
        return parse_output("pytest", written.get(_OUTPUT_FILE, b"").decode(errors="replace"))
    except TaskError:
        return {}


async def _clear(sandbox: Container, user: str) -> None:
    await _as_root(sandbox, [f"rm -rf {_FOLDER} {TESTS} {_SOLUTION}", *_own_folder(user)])


def _own_folder(user: str) -> list[str]:
    return [
        f"rm -rf {_FOLDER}",
        f"mkdir -p {_FOLDER}",
        f"chown {shlex.quote(user)} {_FOLDER}",
        f"chmod 755 {_FOLDER}",
    ]


async def _as_root(sandbox: Container, commands: list[str]) -> None:
    await sandbox.run(
        Command(
            ["sh", "-c", "; ".join(commands)], user="0", cwd="/", timeout_seconds=_RESET_SECONDS
        )
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
    if await _look(sandbox, TESTS) is not None:
        raise FaultError(Reason.TAMPERED, f"{TESTS} could not be cleared")


async def _written(sandbox: Container) -> dict[str, bytes]:
    try:
        return await sandbox.download(_FOLDER, limit_bytes=_LIMIT_BYTES)
    except SandboxError:
        # Too much of it: the reward alone is what decides.
        files: dict[str, bytes] = {}
        for name in (*_REWARD_FILES, _CTRF_FILE):
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
