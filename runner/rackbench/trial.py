"""One attempt at a trial, from its folder to its commit mark.

Read `_live` first: it is the whole life of an attempt, in order.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from rackbench.agent_phase import wait_healthy, work_on
from rackbench.attempt import Attempt, commit, new_attempt
from rackbench.endpoint.serving import Serving
from rackbench.errors import EndpointError
from rackbench.gateway import Line
from rackbench.judging import Work, judge_apart, judge_in_place
from rackbench.plan import Trial
from rackbench.preparation import Prepared, check_disk, check_supported, prepare
from rackbench.sandbox.images import ImageError
from rackbench.site import Site
from rackbench.stages import Done, is_enough, whole_reward
from rackbench.verdict import AgentEnd, FaultError, Verdict, of_fault, of_reward
from rackbench.verification import Verified, clear_tests
from rackbench.workplace import Workplace, workplace
from rackbench_harnesses.ports import HarnessSetupError, SandboxError
from rackbench_results.outcomes import Outcome, Reason
from rackbench_results.records import Result
from rackbench_tasks import TaskError


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
    task, site = attempt.trial.task, attempt.site
    check_supported(task, site)
    check_disk(site)
    serving = site.serving_of(attempt.trial.arm)
    if serving:
        with attempt.phase("endpoint"):
            await serving.wait_ready()
    with attempt.phase("image"):
        prepared = await prepare(attempt)
    done: list[Done] = []
    since_ticks = 0
    async with (
        _sandbox(attempt, prepared) as (place, until_removed),
        AsyncExitStack() as until_agents_end,
    ):
        line = _open_line(attempt, serving, until_agents_end)
        for stage in task.stages:
            is_last = stage is task.stages[-1]
            crashes = serving.crashes if serving else 0
            end, began_ticks = await work_on(stage, place, attempt, serving, line)
            since_ticks = since_ticks or began_ticks
            if is_last:  # calls cut off at the time limit are among what is counted
                await until_agents_end.aclose()
            if line:
                attempt.usage = line.usage()
                _check_model_calls(attempt, line, serving, crashes=crashes, end=end)
            work = Work(attempt, stage, place, attempt.stage_folder(stage), since_ticks)
            verified = await _judge(
                work, prepared, until_removed=until_removed if is_last else None
            )
            done.append(Done(stage, end, verified))
            attempt.judged(stage, end.detail or end.reason, verified)
            if not is_enough(stage, verified.reward):
                break
            if not is_last and not stage.verifier.separate:
                await clear_tests(place.main, place.main.user)
    attempt.reward = whole_reward(task, done)
    return of_reward(done[-1].end, attempt.reward.value, solved_at=site.plan.spec.solved_at)


@asynccontextmanager
async def _sandbox(
    attempt: Attempt, prepared: Prepared
) -> AsyncIterator[tuple[Workplace, AsyncExitStack]]:
    """The attempt's sandbox, healthy, and the stack that removes it, which may be closed early."""
    until_removed = AsyncExitStack()
    try:
        with attempt.phase("sandbox"):
            place = await until_removed.enter_async_context(workplace(attempt, prepared))
            await wait_healthy(place.main, attempt.trial.task.environment.healthcheck)
        yield place, until_removed
    finally:
        if not attempt.is_removed:
            with attempt.phase("teardown"):
                await until_removed.aclose()


def _open_line(attempt: Attempt, serving: Serving | None, stack: AsyncExitStack) -> Line | None:
    """The attempt's own address at the gateway; closed with the agent's time."""
    if serving is None:
        return None
    return stack.enter_context(
        attempt.site.gateway.line(
            serving.upstream, serving.profile.policy, attempt.folder / "calls.jsonl"
        )
    )


async def _judge(
    work: Work, prepared: Prepared, *, until_removed: AsyncExitStack | None
) -> Verified:
    if not work.stage.verifier.separate:
        return await judge_in_place(work)
    image = prepared.verifiers[work.stage.name]
    return await judge_apart(work, image, until_removed=until_removed)


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
