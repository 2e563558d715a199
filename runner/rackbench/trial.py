"""One attempt at a trial, from its folder to its commit mark.

Read `_live` first: it is the whole life of an attempt, in order.
"""

from __future__ import annotations

import errno
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from rackbench.attempt import Attempt, commit, new_attempt
from rackbench.endpoint.serving import Serving
from rackbench.errors import EndpointError
from rackbench.gateway import Line
from rackbench.plan import Trial, unsupported
from rackbench.sandbox import processes
from rackbench.sandbox.container import Container, ContainerSpec
from rackbench.sandbox.docker import labels_of
from rackbench.sandbox.images import Image, ImageError
from rackbench.site import Site
from rackbench.verdict import AgentEnd, FaultError, Verdict, agent_end, of_fault, of_reward
from rackbench.verification import (
    Leftovers,
    nobody_else_writes,
    reset_folders,
    run_verifier,
)
from rackbench_harnesses.ports import (
    Command,
    HarnessSetupError,
    Limits,
    ModelAccess,
    SandboxError,
    Session,
)
from rackbench_results.outcomes import Outcome, Reason
from rackbench_results.records import Result
from rackbench_tasks import TaskError

_GIGABYTE = 1024**3
_STORAGE_POLL_SECONDS = 5.0
_ARTIFACT_FOLDERS = {"artifacts": "artifacts", "agent": "agent/logs"}
_HARNESS_SETUP_SECONDS = 600.0
_SAME_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


async def run_attempt(trial: Trial, site: Site, *, queue_seconds: float) -> Result:
    """Make one attempt and commit its result, whatever happens.

    Cancelled from outside, it commits a cancelled result and lets the cancellation pass.
    """
    with new_attempt(trial, site, queue_seconds=queue_seconds) as attempt:
        try:
            verdict = await _live(attempt)
        except anyio.get_cancelled_exc_class():
            commit(attempt, Verdict(Outcome.CANCELLED, None, "the run was stopped"))
            raise
        except FaultError as fault:
            verdict = of_fault(fault)
        except Exception as error:  # noqa: BLE001  # the trial boundary: a bug of ours or of a harness
            verdict = of_fault(_fault_of(error))
            attempt.log.event("error", repr(error))
        return commit(attempt, verdict)


async def _live(attempt: Attempt) -> Verdict:
    """The life of an attempt."""
    trial, site = attempt.trial, attempt.site
    _check_supported(attempt)
    _check_disk(site)
    serving = site.serving_of(trial.arm)
    if serving:
        with attempt.phase("endpoint"):
            await serving.wait_ready()
    with attempt.phase("image"):
        image = await _image(attempt)
    async with _sandbox(attempt, image) as sandbox:
        verifier_user = trial.task.verifier.user or image.user or "0"
        async with AsyncExitStack() as until_agent_ends:
            line = _open_line(attempt, serving, until_agent_ends)
            session = _session(attempt, sandbox, serving, line)
            with attempt.phase("harness_setup", limit_seconds=_HARNESS_SETUP_SECONDS):
                await _set_up(attempt, session)
                await sandbox.make_log_folders()
            crashes = serving.crashes if serving else 0
            since_ticks = processes.now_ticks()
            end = await _agent(attempt, session, sandbox)
        if line:  # closed by now, so that calls cut off at the time limit are among them
            attempt.usage = line.usage()
            _check_model_calls(attempt, line, serving, crashes=crashes, end=end)
        with attempt.phase("reset"):
            leftovers = await reset_folders(sandbox, verifier_user, since_ticks=since_ticks)
            _collect(attempt, leftovers)
        with attempt.phase("verifier", limit_seconds=trial.task.verifier.timeout_seconds):
            attempt.reward = await run_verifier(
                sandbox, trial.task, verifier_user, attempt.folder / "verifier"
            )
            if leftovers.processes:
                attempt.notes.append(
                    f"{leftovers.processes} processes of the agent ran during the tests"
                )
                await nobody_else_writes(sandbox, verifier_user)
        if kills := sandbox.oom_kills():
            attempt.notes.append(f"the kernel killed {kills} processes for memory")
    return of_reward(end, attempt.reward.value, solved_at=site.plan.spec.solved_at)


def _check_supported(attempt: Attempt) -> None:
    task, site = attempt.trial.task, attempt.site
    if found := unsupported(task):
        raise FaultError(*found)
    asked, host = site.plan.resources(task), site.sandboxes.host
    if asked.cpus > host.cpus or asked.memory_bytes > host.memory_bytes:
        raise FaultError(
            Reason.RESOURCES,
            f"asks for {asked.cpus:g} CPUs and {asked.memory_bytes / _GIGABYTE:.1f} GiB; this "
            f"machine has {host.cpus} and {host.memory_bytes / _GIGABYTE:.1f} GiB",
        )


def _check_disk(site: Site) -> None:
    free, floor = site.sandboxes.free_disk_bytes(), site.plan.spec.disk_floor_gb * _GIGABYTE
    if free is not None and free < floor:
        raise FaultError(
            Reason.DISK,
            f"{free / _GIGABYTE:.1f} GiB free on {site.sandboxes.host.data_root}, "
            f"the floor is {floor / _GIGABYTE:.1f}",
        )


async def _image(attempt: Attempt) -> Image:
    site = attempt.site
    image = await site.sandboxes.images.ensure(
        attempt.trial.task.environment, on_build=lambda name: attempt.log.event("build", name)
    )
    attempt.image = image.id
    host = _SAME_ARCHITECTURE.get(site.sandboxes.host.architecture)
    if host and image.architecture not in ("", host):
        raise FaultError(Reason.ARCHITECTURE, f"the image is for {image.architecture}, not {host}")
    return image


@asynccontextmanager
async def _sandbox(attempt: Attempt, image: Image) -> AsyncIterator[Container]:
    """The attempt's container, healthy; its teardown is a phase of its own."""
    trial, site = attempt.trial, attempt.site
    task, resources = trial.task, site.plan.resources(trial.task)
    spec = ContainerSpec(
        image=image.id,
        labels=labels_of(site.run_id, trial.label, attempt.record.attempt),
        cpus=resources.cpus,
        memory_bytes=resources.memory_bytes,
        processes=site.plan.spec.sandbox.processes,
        network=resources.network,
        user=task.agent.user or image.user or "0",
        workdir=task.environment.workdir,
        env=task.environment.env,
        new_privileges=site.plan.spec.sandbox.new_privileges,
    )
    stack = AsyncExitStack()
    try:
        with attempt.phase("sandbox"):
            async with site.starts:
                sandbox = await stack.enter_async_context(
                    site.sandboxes.start(spec, on_teardown_error=attempt.teardown_failed)
                )
            await _wait_healthy(attempt, sandbox)
        yield sandbox
    finally:
        with attempt.phase("teardown"):
            await stack.aclose()


async def _wait_healthy(attempt: Attempt, sandbox: Container) -> None:
    check = attempt.trial.task.environment.healthcheck
    if check is None:
        return
    began, failures = time.monotonic(), 0
    while True:
        done = await sandbox.run(
            Command(["sh", "-c", check.command], timeout_seconds=check.timeout_seconds)
        )
        if done.exit_code == 0:
            return
        starting = time.monotonic() - began < check.start_period_seconds
        failures += not starting
        if failures >= max(1, check.retries):
            said = (done.text or done.stderr.decode(errors="replace")).strip()[-300:]
            raise FaultError(Reason.SANDBOX, f"not healthy after {failures} tries: {said}")
        await anyio.sleep(check.start_interval_seconds if starting else check.interval_seconds)


def _open_line(attempt: Attempt, serving: Serving | None, stack: AsyncExitStack) -> Line | None:
    """The attempt's own address at the gateway; closed with the agent's time."""
    if serving is None:
        return None
    return stack.enter_context(
        attempt.site.gateway.line(
            serving.upstream, serving.profile.policy, attempt.folder / "calls.jsonl"
        )
    )


def _session(
    attempt: Attempt, sandbox: Container, serving: Serving | None, line: Line | None
) -> Session:
    task, arm, spec = attempt.trial.task, attempt.trial.arm, attempt.site.plan.spec
    model = None
    if serving and line:
        model = ModelAccess(
            base_url=line.base_url,
            api_key=line.api_key,
            model=serving.identity.model,
            context_tokens=serving.identity.context_tokens,
            output_tokens=serving.profile.policy.output_tokens,
            tools=serving.tools,
        )
    solution = task.solution if arm.harness.needs_solution else None
    return Session(
        instruction=task.instruction,
        sandbox=sandbox,
        recorder=attempt.log,
        limits=Limits(
            seconds=attempt.site.plan.resources(task).agent_seconds,
            steps=spec.limits.steps,
            tokens=spec.limits.tokens,
        ),
        model=model,
        solution=solution.folder if solution else None,
        solution_env=solution.env if solution else {},
    )


async def _set_up(attempt: Attempt, session: Session) -> None:
    try:
        with anyio.fail_after(_HARNESS_SETUP_SECONDS):
            await attempt.trial.arm.harness.set_up(session)
    except TimeoutError:
        raise FaultError(
            Reason.HARNESS_SETUP, f"not ready after {_HARNESS_SETUP_SECONDS:g} s"
        ) from None


async def _agent(attempt: Attempt, session: Session, sandbox: Container) -> AgentEnd:
    """The agent phase: the harness works until it ends, its time is over, or the disk is full.

    What it was running at its time limit is killed with its whole tree; services that earlier
    commands left stay, since the tests may need them.
    """
    limit_seconds = session.limits.seconds
    end = AgentEnd(Reason.AGENT_TIMEOUT, f"stopped after {limit_seconds:g} s")
    with attempt.phase("agent", limit_seconds=limit_seconds):
        async with anyio.create_task_group() as beside:
            full = anyio.Event()
            beside.start_soon(_watch_storage, attempt, sandbox, full, beside.cancel_scope)
            with anyio.move_on_after(limit_seconds):
                done = await attempt.trial.arm.harness.run(session)
                attempt.harness_exit = str(done.finish)
                end = agent_end(done.finish, done.detail)
            beside.cancel_scope.cancel()
        if full.is_set():
            end = AgentEnd(Reason.AGENT_ERROR, "stopped: it wrote more than its storage limit")
    attempt.log.event("agent_end", f"{attempt.harness_exit or end.reason}: {end.detail}")
    return end


async def _watch_storage(
    attempt: Attempt, sandbox: Container, full: anyio.Event, work: anyio.CancelScope
) -> None:
    """The engine sets no limit to what a container writes on most disks; so it is watched."""
    limit_bytes = attempt.site.plan.resources(attempt.trial.task).storage_bytes
    while True:
        await anyio.sleep(_STORAGE_POLL_SECONDS)
        if await sandbox.written_bytes() > limit_bytes:
            full.set()
            work.cancel()


def _check_model_calls(
    attempt: Attempt, line: Line, serving: Serving | None, *, crashes: int, end: AgentEnd
) -> None:
    """An attempt that the endpoint spoiled, or that never asked it, says nothing about the model."""
    if serving and serving.crashes > crashes:
        raise FaultError(Reason.ENDPOINT, "the engine crashed while the agent worked")
    if end.reason is Reason.ENDPOINT:
        raise FaultError(Reason.ENDPOINT, end.detail)
    if attempt.usage.steps == 0:
        faults = f"; {line.endpoint_faults} calls failed" if line.endpoint_faults else ""
        reason = Reason.ENDPOINT if line.endpoint_faults else Reason.NO_MODEL_CALL
        raise FaultError(reason, f"no model call was answered{faults}; {end.detail}")


def _collect(attempt: Attempt, leftovers: Leftovers) -> None:
    """Keep what the agent left for us; what was too much is noted, not fatal."""
    if leftovers.note:
        attempt.notes.append(leftovers.note)
    for path, content in leftovers.files.items():
        part, _, rest = path.partition("/")
        if part in _ARTIFACT_FOLDERS and rest:
            target = attempt.folder / _ARTIFACT_FOLDERS[part] / rest
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _fault_of(error: Exception) -> FaultError:
    """The reason that an error stands for."""
    if isinstance(error, FaultError):
        return error
    if isinstance(error, ExceptionGroup):
        return _fault_of(error.exceptions[0])
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return FaultError(Reason.DISK, str(error))
    if "no space left on device" in str(error).lower():
        return FaultError(Reason.DISK, str(error))
    for kind, reason in (
        (ImageError, Reason.BUILD),
        (TaskError, Reason.BUILD),
        (SandboxError, Reason.SANDBOX),
        (HarnessSetupError, Reason.HARNESS_SETUP),
        (EndpointError, Reason.ENDPOINT),
    ):
        if isinstance(error, kind):
            return FaultError(reason, str(error))
    return FaultError(Reason.RUNNER, f"{type(error).__name__}: {error}")
