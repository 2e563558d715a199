"""From the end of an agent phase to a verdict on it: in the agent's sandbox, or in a fresh one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from rackbench.artifacts import PUBLISHED, Artifacts, collect, keep, restore
from rackbench.attempt import Attempt
from rackbench.lending import lent
from rackbench.reach import BRIDGE, Surroundings, permitted, reach, verifier_network
from rackbench.sandbox.container import Container
from rackbench.sandbox.images import Image
from rackbench.verification import (
    Verified,
    fresh_folders,
    nobody_else_writes,
    reset_folders,
    run_verifier,
)
from rackbench.verifier_tools import AT, VerifierTools
from rackbench.workplace import Workplace, container_spec
from rackbench_harnesses.ports import Command
from rackbench_tasks import Artifact, Environment, Network, NetworkMode, Stage, VerifierPhase

_MEGABYTE = 1024 * 1024
_KEPT = {"artifacts": "artifacts", "agent": "agent/logs"}
"""Below /logs: where it goes in the attempt's folder."""
_ARTIFACTS = "artifacts"


@dataclass(frozen=True, slots=True)
class Work:
    """A finished agent phase: what was to be done, and where it was done."""

    attempt: Attempt
    stage: Stage
    place: Workplace
    folder: Path
    """Of the stage, in the attempt's."""
    since_ticks: int
    """When the first agent phase began: what started since is the agent's."""

    @property
    def verifier_network(self) -> Network:
        """What the tests may reach."""
        declared = verifier_network(self.attempt.trial.task, self.stage)
        return permitted(declared, policy=self.attempt.site.plan.spec.sandbox.network)

    @property
    def tools(self) -> VerifierTools | None:
        """What is lent to the tests."""
        return self.attempt.site.plan.tools

    def note_memory_kills(self) -> None:
        """Note what the kernel killed in the agent's container, while it is there to be asked."""
        if kills := self.place.main.oom_kills():
            self.attempt.notes.append(f"the kernel killed {kills} processes for memory")


async def judge_in_place(work: Work) -> Verified:
    """Run the tests where the agent worked; services that it started go on.

    Raises FaultError: tampered, verifier; SandboxError.
    """
    attempt, stage, place = work.attempt, work.stage, work.place
    sandbox = place.main
    user = stage.verifier.user or place.image.user or "0"
    with attempt.phase("reset"):
        if stage.artifacts:
            (await _collect(work, stage.artifacts, owner=(0, 0))).archive.close()
        leftovers = await reset_folders(sandbox, user, since_ticks=work.since_ticks)
        if leftovers.note:
            attempt.notes.append(leftovers.note)
        _keep_logs(leftovers.files, work.folder)
    note = attempt.notes.append
    with attempt.phase("verifier", limit_seconds=stage.verifier.timeout_seconds):
        async with (
            reach(sandbox, work.verifier_network, place.around, note=note),
            lent(work.tools, place.counter),
        ):
            verified = await run_verifier(
                sandbox, _equipped(stage.verifier, work.tools), user, work.folder / "verifier"
            )
        if leftovers.processes:
            note(f"{leftovers.processes} processes of the agent ran during the tests")
            await nobody_else_writes(sandbox, user)
    work.note_memory_kills()
    return verified


async def judge_apart(
    work: Work, image: Image, *, until_removed: AsyncExitStack | None
) -> Verified:
    """Run the tests in a container of their own, with nothing but the artifacts.

    The agent's sandbox is gone by then: `until_removed` holds it, and is closed; where it is None,
    since later stages need the sandbox, it is frozen meanwhile. Raises FaultError: verifier;
    SandboxError.
    """
    attempt, stage, place = work.attempt, work.stage, work.place
    user = stage.verifier.user or image.user or "0"
    with attempt.phase("collect"):
        await _run_hooks(work)
        await place.main.kill_since(work.since_ticks)
        published = [] if any(_is_published(each) for each in stage.artifacts) else [PUBLISHED]
        wanted = [*published, *stage.artifacts]
        artifacts = await _collect(work, wanted, owner=_numbers(user) or (0, 0))
        work.note_memory_kills()
    with closing(artifacts.archive):
        if until_removed:
            with attempt.phase("teardown"):
                attempt.is_removed = True
                await until_removed.aclose()
            return await _judge_apart(work, image, artifacts)
        await place.main.pause()
        try:
            return await _judge_apart(work, image, artifacts)
        finally:
            with anyio.CancelScope(shield=True):
                await place.main.unpause()


async def _judge_apart(work: Work, image: Image, artifacts: Artifacts) -> Verified:
    attempt, stage = work.attempt, work.stage
    user = stage.verifier.user or image.user or "0"
    network, site = work.verifier_network, attempt.site
    around = Surroundings(BRIDGE if network.mode is NetworkMode.PUBLIC else None)
    spec = replace(
        container_spec(attempt, stage.verifier.environment or Environment(), image),
        network=around.public or "none",
        read_only_mounts={AT: work.tools.folder} if work.tools else {},
    )
    async with AsyncExitStack() as stack:
        with attempt.phase("verifier_sandbox"):
            async with site.starts:
                sandbox = await stack.enter_async_context(
                    site.sandboxes.start(spec, on_teardown_error=attempt.teardown_failed)
                )
            await fresh_folders(sandbox, user, without=artifacts.places)
            await restore(artifacts, sandbox)
            if _numbers(user) is None and artifacts.taken:
                await _give_to(sandbox, user, artifacts.places)
        with attempt.phase("verifier", limit_seconds=stage.verifier.timeout_seconds):
            async with reach(sandbox, network, around, note=attempt.notes.append):
                return await run_verifier(
                    sandbox, _equipped(stage.verifier, work.tools), user, work.folder / "verifier"
                )


async def _run_hooks(work: Work) -> None:
    """Commands of the task that gather results, in its own services; a failing one is noted."""
    for hook in work.stage.verifier.collect:
        done = await work.place.service(hook.service).run(
            Command(
                ["sh", "-c", hook.command],
                user=hook.user,
                timeout_seconds=hook.timeout_seconds,
            )
        )
        if done.exit_code:
            said = (done.text + done.stderr.decode(errors="replace")).strip()[-200:]
            work.attempt.notes.append(f"collect hook ended with {done.exit_code}: {said}")
        elif done.timed_out:
            work.attempt.notes.append(
                f"collect hook was stopped after {hook.timeout_seconds:g} s: {hook.command}"
            )


async def _collect(work: Work, wanted: Sequence[Artifact], *, owner: tuple[int, int]) -> Artifacts:
    artifacts = await collect(
        wanted,
        work.place.service,
        owner=owner,
        limit_bytes=work.attempt.site.plan.spec.sandbox.artifacts_mb * _MEGABYTE,
    )
    keep(artifacts, work.folder / _ARTIFACTS)
    work.attempt.notes.extend(
        note for note in artifacts.notes if not note.startswith(f"artifact {PUBLISHED.source}:")
    )
    return artifacts


def _equipped(verifier: VerifierPhase, tools: VerifierTools | None) -> VerifierPhase:
    """A verifier that finds the lent tools first."""
    if tools is None:
        return verifier
    command = tuple(tools.command(verifier.command))
    return replace(verifier, command=command, env={**verifier.env, **tools.env})


def _keep_logs(files: Mapping[str, bytes], folder: Path) -> None:
    for path, content in files.items():
        part, _, rest = path.partition("/")
        if part in _KEPT and rest:
            target = folder / _KEPT[part] / rest
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


async def _give_to(sandbox: Container, user: str, places: Sequence[str]) -> None:
    """Artifacts belong to the verifier's user, whose number only its own container knows."""
    paths = " ".join(map(shlex.quote, places))
    script = f"for p in {paths}; do [ ! -e $p ] || chown -R {shlex.quote(user)} $p; done"
    await sandbox.run(Command(["sh", "-c", script], user="0", cwd="/"))


def _numbers(user: str) -> tuple[int, int] | None:
    """User and group of `0`, `root`, `1000` or `1000:1000`; None for any other name."""
    if user == "root":
        return 0, 0
    uid, _, gid = user.partition(":")
    if not uid.isdigit() or (gid and not gid.isdigit()):
        return None
    return int(uid), int(gid or uid)


def _is_published(artifact: Artifact) -> bool:
    return artifact.source.rstrip("/") == PUBLISHED.source and artifact.service is None
