"""One agent phase: the sandbox made ready, the harness set up, its work bounded."""

from __future__ import annotations

import time

import anyio

from rackbench.attempt import Attempt
from rackbench.endpoint.serving import Serving
from rackbench.gateway import Line
from rackbench.reach import agent_network, permitted, reach
from rackbench.sandbox import processes
from rackbench.sandbox.container import Container
from rackbench.verdict import AgentEnd, FaultError, agent_end
from rackbench.workplace import Workplace
from rackbench_harnesses.ports import Command, Limits, ModelAccess, Session
from rackbench_results.outcomes import Reason
from rackbench_tasks import Healthcheck, Stage

_STORAGE_POLL_SECONDS = 5.0
_HARNESS_SETUP_SECONDS = 600.0
_STAGE_SETUP_SECONDS = 600.0
_STAGE_SETUP = "setup.sh"


async def work_on(
    stage: Stage, place: Workplace, attempt: Attempt, serving: Serving | None, line: Line | None
) -> tuple[AgentEnd, int]:
    """Let the arm's harness work on one instruction.

    Returns how it ended, and the moment from which processes are the agent's. Raises FaultError.
    """
    sandbox, policy = place.main, attempt.site.plan.spec.sandbox.network
    sandbox.user = stage.agent.user or place.image.user or "0"
    session = _session(stage, attempt, sandbox, serving, line)
    declared = attempt.trial.task.environment.network
    note = attempt.notes.append
    with attempt.phase("harness_setup", limit_seconds=_HARNESS_SETUP_SECONDS):
        async with reach(sandbox, permitted(declared, policy=policy), place.around, note=note):
            await _prepare_stage(stage, sandbox)
            await _set_up(attempt, session)
        await sandbox.make_log_folders()
    network = permitted(agent_network(attempt.trial.task, stage), policy=policy)
    since_ticks = processes.now_ticks()
    async with reach(sandbox, network, place.around, note=note):
        end = await _agent(attempt, session, sandbox)
    return end, since_ticks


async def wait_healthy(sandbox: Container, check: Healthcheck | None) -> None:
    """Run a task's own healthcheck until it is content.

    Raises FaultError: sandbox.
    """
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


async def _prepare_stage(stage: Stage, sandbox: Container) -> None:
    """Put a stage's own files into the working folder, and run its set-up."""
    if stage.workdir:
        where = (await sandbox.run(Command(["pwd"]))).text.strip() or "/"
        await sandbox.upload_folder(stage.workdir, where)
        if (stage.workdir / _STAGE_SETUP).is_file():
            done = await sandbox.run(
                Command(["bash", _STAGE_SETUP], timeout_seconds=_STAGE_SETUP_SECONDS)
            )
            if done.exit_code != 0:
                said = (done.text + done.stderr.decode(errors="replace")).strip()[-300:]
                raise FaultError(
                    Reason.SANDBOX, f"{_STAGE_SETUP} of stage {stage.name!r} failed: {said}"
                )
    await wait_healthy(sandbox, stage.healthcheck)


def _session(
    stage: Stage,
    attempt: Attempt,
    sandbox: Container,
    serving: Serving | None,
    line: Line | None,
) -> Session:
    arm, site = attempt.trial.arm, attempt.site
    environment = attempt.trial.task.environment
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
    solution = stage.solution if arm.harness.needs_solution else None
    return Session(
        instruction=stage.instruction,
        sandbox=sandbox,
        recorder=attempt.log,
        limits=Limits(
            seconds=site.plan.agent_seconds(stage),
            steps=site.plan.spec.limits.steps,
            tokens=site.plan.spec.limits.tokens,
        ),
        model=model,
        solution=solution,
        mcp_servers=environment.mcp_servers,
        skills_folder=environment.skills_dir,
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
    """The harness works until it ends, its time is over, or the disk is full.

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
