"""Executes a plan: endpoints up and proved, every trial to its final result, endpoints down.

Read `execute` first.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from rackbench.endpoint.serving import EndpointKind, Place, Report, Serving
from rackbench.endpoint.settings import EndpointSettings
from rackbench.errors import EndpointError, PrerequisiteError, UsageError
from rackbench.gateway import open_gateway
from rackbench.host import describe_host
from rackbench.orphans import sweep_processes
from rackbench.plan import Plan, Trial
from rackbench.progress import AttemptEnded, DevicesBusy, EndpointSaid, Observers, RunBegan
from rackbench.sandbox import owner
from rackbench.sandbox.docker import DockerSandboxes
from rackbench.site import Site
from rackbench.slots import Slots
from rackbench.trial import run_attempt
from rackbench_harnesses import registry
from rackbench_results.outcomes import Outcome, is_retried
from rackbench_results.records import EndpointIdentity, Preflight, Result
from rackbench_results.store import RunFolder, read_record, write_json, write_record

_GIGABYTE = 1024**3
_TICK_SECONDS = 2.0
_COST_SECONDS = 10.0
_NETWORKS = 24
"""Of compose projects, at once: far below what exhausts an engine's addresses."""
# The machine needs some memory for itself and the runner.
_MEMORY_SHARE = 0.9


async def execute(plan: Plan, folder: RunFolder, observers: Observers) -> None:
    """Run every trial that has no final result yet.

    The caller holds the folder's lock. Raises PrerequisiteError, EndpointError, UsageError;
    cancelled, it leaves a folder from which the run can be resumed.
    """
    run_id = folder.path.name
    connect = registry.load("rackbench.sandboxes", plan.spec.sandbox.kind)
    builds_at_once = max(1, (os.cpu_count() or 2) // 2)
    with connect(builds_at_once=builds_at_once, image_map=plan.image_map) as sandboxes:
        sandboxes.sweep()
        sweep_processes()
        _check_disk(plan, sandboxes)
        write_json(folder.environment_path, describe_host(sandboxes.host))
        todo = unfinished(plan, folder)
        slots = plan.spec.slots or sandboxes.host.cpus
        observers.see(
            RunBegan(
                run_id, str(folder.path), len(plan.trials), len(plan.trials) - len(todo), slots
            )
        )
        if not todo:
            return
        wanted = sorted({trial.arm.endpoint for trial in todo if trial.arm.endpoint})
        async with (
            open_gateway() as gateway,
            sandboxes.networks(run_id, size=_NETWORKS) as networks,
            _endpoints(plan, folder, wanted, observers) as up,
        ):
            site = Site(
                run_id=run_id,
                plan=plan,
                folder=folder,
                sandboxes=sandboxes,
                gateway=gateway,
                servings=up,
                starts=anyio.CapacityLimiter(max(1, sandboxes.host.cpus)),
                networks=networks,
                projects=anyio.CapacityLimiter(_NETWORKS // 2),
                observers=observers,
            )
            await _run_trials(todo, site, slots)


def unfinished(plan: Plan, folder: RunFolder) -> list[Trial]:
    """Trials without a final result, in the plan's order.

    A void trial is final once its new attempts, fixed before the run, are used up.
    """
    return [trial for trial in plan.trials if not _is_final(plan, _attempts(folder, trial))]


def _attempts(folder: RunFolder, trial: Trial) -> list[Result]:
    """Committed results of a trial's attempts, oldest first."""
    at = folder.trial_folder(trial.task.name, trial.arm.name, trial.index)
    found = (read_record(path / "result.json", Result) for path in folder.attempts(at))
    return [result for result in found if result]


def _is_final(plan: Plan, results: Sequence[Result]) -> bool:
    ended = [result for result in results if result.outcome is not Outcome.CANCELLED]
    if not ended:
        return False
    voids = sum(is_retried(result.outcome, result.reason) for result in ended)
    return not is_retried(ended[-1].outcome, ended[-1].reason) or voids > plan.spec.retries


async def _run_trials(todo: Sequence[Trial], site: Site, places: int) -> None:
    """All trials at once, as far as there are slots; the first cancellation stops them all."""
    slots = Slots(places, int(site.sandboxes.host.memory_bytes * _MEMORY_SHARE))
    async with anyio.create_task_group() as beside:
        beside.start_soon(_tell_devices, site)
        for serving in site.servings.values():
            beside.start_soon(serving.until_lost)
        async with anyio.create_task_group() as work:
            for trial in todo:
                work.start_soon(_run_trial, trial, site, slots)
        beside.cancel_scope.cancel()


async def _run_trial(trial: Trial, site: Site, slots: Slots) -> None:
    """Attempts until one is final."""
    memory_bytes = min(
        site.plan.resources(trial.task).memory_bytes,
        int(site.sandboxes.host.memory_bytes * _MEMORY_SHARE),
    )
    results = _attempts(site.folder, trial)
    while not _is_final(site.plan, results):
        queued = time.monotonic()
        async with slots.take(memory_bytes):
            result = await run_attempt(trial, site, queue_seconds=time.monotonic() - queued)
        results.append(result)
        final = _is_final(site.plan, results)
        site.observers.see(AttemptEnded(trial.label, result, final))


async def _tell_devices(site: Site) -> None:
    while True:
        hours = {"gpu": 0.0, "cpu": 0.0}
        for serving in site.servings.values():
            if serving.device and serving.devices:
                up_seconds = time.monotonic() - serving.timeline.launched
                hours[serving.device] += serving.devices * up_seconds / 3600
        site.observers.see(DevicesBusy(gpu_hours=hours["gpu"], cpu_hours=hours["cpu"]))
        await anyio.sleep(_TICK_SECONDS)


@asynccontextmanager
async def _endpoints(
    plan: Plan, folder: RunFolder, wanted: Sequence[str], observers: Observers
) -> AsyncIterator[Mapping[str, Serving]]:
    """The endpoints that are needed, up, proved, and the same as before."""
    servings: dict[str, Serving] = {}
    async with AsyncExitStack() as stack:
        for name in wanted:
            servings[name] = await stack.enter_async_context(
                _endpoint(name, plan.endpoints[name], folder, observers)
            )
        try:
            yield servings
        finally:
            for serving in servings.values():
                serving.timeline.work_ended = time.monotonic()


@asynccontextmanager
async def _endpoint(
    name: str, kind: EndpointKind, folder: RunFolder, observers: Observers
) -> AsyncIterator[Serving]:
    at = folder.endpoint_folder(name)
    at.mkdir(parents=True, exist_ok=True)

    def report(text: str) -> None:
        observers.see(EndpointSaid(name, text))

    place = Place(folder=at, labels=_process_labels(folder))
    # One record for each time that it was up; a resumed run has several.
    cost_path = at / f"cost-{len(list(at.glob('cost-*.json'))) + 1:02}.json"
    serving: Serving | None = None
    try:
        async with kind.serve(place, report) as serving, anyio.create_task_group() as beside:
            _must_be_the_same(name, at, serving.identity)
            beside.start_soon(_keep_cost, cost_path, serving, kind.settings)
            await _prove(name, at, serving, kind, report=report)
            yield serving
            beside.cancel_scope.cancel()
    finally:
        if serving:
            write_record(cost_path, serving.cost(kind.settings))


async def _prove(
    name: str, at: Path, serving: Serving, kind: EndpointKind, *, report: Report
) -> None:
    """Pre-flight: what fails the first proof is not asked anything that counts."""
    if not kind.needs_preflight:
        return
    from rackbench.endpoint.preflight import preflight  # noqa: PLC0415  # openai takes its time

    report("proving it")
    began = time.monotonic()
    found: Preflight = await preflight(serving)
    serving.timeline.warmup_seconds += time.monotonic() - began
    write_record(at / "preflight.json", found)
    for check in found.checks:
        report(f"{check.name}: {check.state} ({check.detail})")
    if found.state_of("completion") != "pass":
        raise EndpointError(f"endpoint {name!r} failed its pre-flight: {found.checks[0].detail}")
    if kind.settings.tools == "auto":
        serving.tools = found.state_of("tool_call") == "pass"
        if serving.profile.tools and not serving.tools:
            raise EndpointError(
                f"endpoint {name!r} cannot call tools: {found.checks[-1].detail}; "
                "mend its parser, or say `tools: no` to let harnesses use text"
            )
    else:
        serving.tools = kind.settings.tools == "yes"


def _must_be_the_same(name: str, at: Path, identity: EndpointIdentity) -> None:
    """A resumed run goes on with the same model behind whatever address; never with another."""
    path = at / "identity.json"
    before = read_record(path, EndpointIdentity)
    if before is None:
        write_record(path, identity)
        return
    if before == identity:
        return
    old, new = before.model_dump(), identity.model_dump()
    changed = ", ".join(
        f"{key}: {old[key]!r} → {new[key]!r}" for key in old if old[key] != new[key]
    )
    raise UsageError(
        f"endpoint {name!r} is not the one this run began with ({changed}); its trials would not "
        "belong to the same arm: start a new run"
    )


async def _keep_cost(path: Path, serving: Serving, settings: EndpointSettings) -> None:
    """Write the cost down again and again: a runner that is killed must not lose it."""
    while True:
        write_record(path, serving.cost(settings))
        await anyio.sleep(_COST_SECONDS)


def _process_labels(folder: RunFolder) -> dict[str, str]:
    return {
        "RACKBENCH_RUN": folder.path.name,
        "RACKBENCH_OWNER": str(owner.this_process()),
    }


def _check_disk(plan: Plan, sandboxes: DockerSandboxes) -> None:
    free, floor = sandboxes.free_disk_bytes(), plan.spec.disk_floor_gb
    if free is not None and free < floor * _GIGABYTE:
        raise PrerequisiteError(
            f"{free / _GIGABYTE:.1f} GiB are free on {sandboxes.host.data_root}, the floor is "
            f"{floor:g}; free some space, or lower disk_floor_gb"
        )
