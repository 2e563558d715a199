"""From a run file to a finished run folder: claimed, locked, executed, summed up."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import yaml

from rackbench.errors import Exit, RackbenchError, UsageError
from rackbench.lookup import plan_record, summarise_run
from rackbench.plan import Plan, make_plan
from rackbench.progress import Observer, Observers
from rackbench.run import execute
from rackbench.spec import make_spec, override_key, read_values
from rackbench_results.store import (
    RunFolder,
    StoreError,
    create_run,
    lock_run,
    write_json,
)
from rackbench_results.summary import Summary


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that came to its end, or was stopped."""

    folder: RunFolder
    summary: Summary
    exit_code: Exit


def plan_run(path: Path, overrides: Sequence[str], *, strict: bool) -> tuple[Plan, dict[str, Any]]:
    """The plan of a run file, and the file's values with the overrides in them."""
    values = read_values(path)
    for override in overrides:
        override_key(values, override)
    return plan_values(
        values, beside=path.parent.resolve(), origin=str(path), strict=strict
    ), values


def plan_values(values: Mapping[str, Any], *, beside: Path, origin: str, strict: bool) -> Plan:
    """The plan of a run file's values."""
    spec = make_spec(values, origin=origin, beside=beside)
    return make_plan(spec, beside=beside, host_env=os.environ, strict=strict)


def start_run(
    plan: Plan, values: Mapping[str, Any], *, beside: Path, observers: Sequence[Observer]
) -> Finished:
    """Claim a new run folder and run the plan in it."""
    folder = create_run(plan.spec.results, plan.spec.name, datetime.now(UTC))
    folder.spec_path.write_text(yaml.safe_dump(_plain(values), sort_keys=False))
    write_json(folder.plan_path, {**plan.record(), "beside": str(beside)})
    return _run(plan, folder, observers)


def resume_run(
    folder: RunFolder, overrides: Sequence[str], observers: Sequence[Observer]
) -> Finished:
    """Go on with a run: what has its final result is not run again.

    Raises UsageError where the tasks or arms are no longer those it began with.
    """
    before, plan = _plan_again(folder, overrides)
    _must_match(before, plan.record())
    return _run(plan, folder, observers)


def _run(plan: Plan, folder: RunFolder, observers: Sequence[Observer]) -> Finished:
    _allow_many_files()
    try:
        with lock_run(folder.path):
            interrupted = anyio.run(_execute_until_signal, plan, folder, Observers(observers))
            summary = summarise_run(folder)
    except StoreError as error:
        raise UsageError(str(error)) from error
    if interrupted:
        return Finished(folder, summary, Exit.INTERRUPTED)
    too_many = summary.void_share > plan.spec.void_threshold
    return Finished(folder, summary, Exit.VOIDS if too_many else Exit.OK)


def _allow_many_files() -> None:
    """Every command and every connection of a sandbox is an open file of ours."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _execute_until_signal(plan: Plan, folder: RunFolder, observers: Observers) -> bool:
    """Run the plan; True if a signal stopped it."""
    stopped = False

    def stop(work: anyio.CancelScope) -> None:
        nonlocal stopped
        stopped = True
        work.cancel()

    try:
        async with _stoppable(stop):
            await execute(plan, folder, observers)
    except BaseExceptionGroup as group:
        raise _first(group) from group
    return stopped


@asynccontextmanager
async def _stoppable(stop: Callable[[anyio.CancelScope], None]) -> AsyncIterator[None]:
    """The first signal cancels the work, the second ends the process at once.

    Ended so, containers stay: their labels let the next start clean up. Engines go with us.
    """
    async with anyio.create_task_group() as beside:
        with anyio.CancelScope() as work:
            await beside.start(_watch_signals, work, stop)
            yield
        beside.cancel_scope.cancel()


async def _watch_signals(
    work: anyio.CancelScope,
    stop: Callable[[anyio.CancelScope], None],
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            if work.cancel_called:
                os._exit(Exit.INTERRUPTED)
            stop(work)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show of several: one that a user can mend before any other."""
    flat: list[BaseException] = []

    def gather(error: BaseException) -> None:
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                gather(inner)
        else:
            flat.append(error)

    gather(group)
    return next((error for error in flat if isinstance(error, RackbenchError)), flat[0])


def _plan_again(folder: RunFolder, overrides: Sequence[str]) -> tuple[dict[str, Any], Plan]:
    values, before = plan_record(folder)
    for override in overrides:
        override_key(values, override)
    plan = plan_values(
        values, beside=Path(before["beside"]), origin=str(folder.spec_path), strict=False
    )
    return before, plan


def _must_match(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to mix trials of different tasks or arms in one run."""
    problems = []
    for what in ("tasks", "arms"):
        old = {row["name"]: row["digest"] for row in before[what]}
        new = {row["name"]: row["digest"] for row in now[what]}
        kind = what.removesuffix("s")
        problems += [f"{kind} {name!r} is gone" for name in old if name not in new]
        problems += [f"{kind} {name!r} is new" for name in new if name not in old]
        problems += [
            f"{kind} {name!r} has changed" for name in old if new.get(name, old[name]) != old[name]
        ]
    problems += _changed_endpoints(before["endpoints"], now["endpoints"])
    for what in ("verifier_tools", "image_map"):
        if before.get(what) != now[what]:
            problems.append(f"{what} has changed")
    if problems:
        raise UsageError(
            "this run cannot go on as it is:\n  " + "\n  ".join(problems) + "\nstart a new run"
        )


def _changed_endpoints(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"endpoint {name!r}: {key} was {old[key]!r}, is {now[name][key]!r}"
        for name, old in before.items()
        for key in old
        if name in now and now[name][key] != old[key]
    ]


def _plain(values: Any) -> Any:
    """YAML without Python's own types."""
    if isinstance(values, Mapping):
        return {str(key): _plain(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [_plain(value) for value in values]
    return str(values) if isinstance(values, Path) else values
