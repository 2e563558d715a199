"""Proves tasks by running them: every attempt of every check in one run, then the judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rackbench.check import forging, idle, image, leaks, mutants, network, reference
from rackbench.check.case import Case, Check, Seen
from rackbench.check.finding import CheckedTask, CheckName, Finding, Level
from rackbench.check.looking import Inspected, look_into
from rackbench.check.options import CheckOptions, allowances_of
from rackbench.check.variant import Variant
from rackbench.check.watched import WatchedOracle
from rackbench.errors import Exit
from rackbench.launch import plan_values, start_run
from rackbench.plan import Plan, PlannedArm, Trial
from rackbench.progress import Observer
from rackbench.spec import override_key
from rackbench_harnesses import registry
from rackbench_results.outcomes import Outcome
from rackbench_results.store import RunFolder, write_json
from rackbench_tasks import Task

Say = Callable[[str], None]

_IN_IMAGES = frozenset({CheckName.ANSWER, CheckName.SIZE, CheckName.REBUILD})


@dataclass(frozen=True, slots=True)
class Attempts:
    """The run of a check, finished."""

    plan: Plan
    folder: RunFolder
    variants: Mapping[str, Mapping[str, Variant]]
    """By the task's id and the arm."""
    interrupted: bool


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was proved of all tasks."""

    folder: Path
    """Of the run, with every attempt and `check.json`."""
    tasks: tuple[CheckedTask, ...]

    @property
    def proved(self) -> bool:
        """Nothing speaks against any of them."""
        return all(task.proved for task in self.tasks)

    def record(self) -> dict[str, Any]:
        """The report as data; also what `check.json` holds."""
        return {
            "schema_version": 1,
            "run": str(self.folder),
            "proved": self.proved,
            "tasks": [task.record() for task in self.tasks],
        }


def check_tasks(
    path: Path, options: CheckOptions, *, observer: Observer, say: Say = lambda _: None
) -> CheckReport:
    """Make every chosen check of every task of a suite.

    Raises UsageError, PrerequisiteError; KeyboardInterrupt where a signal stopped the run.
    """
    attempts = run_attempts(path, options, observer=observer)
    if attempts.interrupted:
        raise KeyboardInterrupt
    return judge(attempts, options, say=say)


def run_attempts(path: Path, options: CheckOptions, *, observer: Observer) -> Attempts:
    """All attempts that the checks need, in one run."""
    checks = _checks(options)
    values = _values(path, options)
    for override in options.overrides:
        override_key(values, override)
    plan = plan_values(values, beside=Path.cwd(), origin="task check", strict=options.strict)
    for task in plan.tasks:
        allowances_of(task)  # what is wrong with them is told before anything starts
    variants = {task.id: _variants(task, checks) for task in plan.tasks}
    plan = _with_variants(plan, variants)
    finished = start_run(plan, values, beside=Path.cwd(), observers=[observer])
    return Attempts(
        plan, finished.folder, variants, interrupted=finished.exit_code is Exit.INTERRUPTED
    )


def judge(attempts: Attempts, options: CheckOptions, *, say: Say) -> CheckReport:
    """What the attempts and the images say of each task; written into the run's folder too."""
    seen = _seen(attempts)
    images = {}
    if options.checks & _IN_IMAGES:
        connect = registry.load("rackbench.sandboxes", attempts.plan.spec.sandbox.kind)
        builds_at_once = max(1, (os.cpu_count() or 2) // 2)
        image_map = attempts.plan.image_map
        with connect(builds_at_once=builds_at_once, image_map=image_map) as sandboxes:
            images = look_into(
                sandboxes,
                [each for task in attempts.plan.tasks if (each := _inspected(task, seen[task.id]))],
                rebuild=CheckName.REBUILD in options.checks,
                say=say,
            )
    checked = []
    for task in attempts.plan.tasks:
        case = Case(task, options, allowances_of(task), seen[task.id], images.get(task.id))
        checked.append(_judged(case))
    report = CheckReport(attempts.folder.path, tuple(checked))
    write_json(attempts.folder.path / "check.json", report.record())
    return report


def _checks(options: CheckOptions) -> list[Check]:
    """The chosen ones, in the order in which they are told."""
    every = [
        reference.REFERENCE,
        reference.stable(options.times),
        idle.CHECK,
        network.CHECK,
        leaks.CHECK,
        forging.CHECK,
        mutants.CHECK,
        image.SIZE,
        image.REBUILD,
    ]
    if CheckName.VENDOR in options.checks:
        from rackbench.check import vendor  # noqa: PLC0415  # its lint is read only where asked for

        every.append(vendor.CHECK)
    return [check for check in every if check.name in options.checks]


def _values(path: Path, options: CheckOptions) -> dict[str, Any]:
    return {
        "name": "check",
        "tasks": [{"path": str(path.resolve())}],
        "arms": [{"harness": "oracle"}, {"harness": "nop"}],
        "retries": 0,
        "void_threshold": 1.0,
        "slots": options.slots,
        "results": str(options.results),
    }


def _variants(task: Task, checks: Sequence[Check]) -> dict[str, Variant]:
    wanted: dict[str, Variant] = {}
    for check in checks:
        for variant in check.variants(task):
            wanted.setdefault(variant.name, variant)
    if any(stage.solution is None for stage in task.stages):
        wanted = {
            name: variant for name, variant in wanted.items() if not variant.harness.needs_solution
        }
    return wanted


def _with_variants(plan: Plan, variants: Mapping[str, Mapping[str, Variant]]) -> Plan:
    """The plan with exactly these attempts; tasks take turns, so that builds do not wait."""
    arms: dict[str, PlannedArm] = {}
    trials: list[tuple[int, Trial]] = []
    for of_task in variants.values():
        for place, variant in enumerate(of_task.values()):
            arm = PlannedArm(variant.name, variant.harness, variant.settings, None)
            arms.setdefault(arm.name, arm)
            trials.append((place, Trial(variant.task, arm, 0)))
    ordered = sorted(trials, key=lambda row: row[0])
    return replace(plan, arms=tuple(arms.values()), trials=tuple(trial for _, trial in ordered))


def _seen(attempts: Attempts) -> dict[str, dict[str, Seen]]:
    found: dict[str, dict[str, Seen]] = {task.id: {} for task in attempts.plan.tasks}
    for folder, result in attempts.folder.final_results_with_paths():
        variant = attempts.variants.get(result.task_id, {}).get(result.arm)
        if variant:
            found[result.task_id][result.arm] = Seen(variant, result, folder)
    return found


def _inspected(task: Task, seen: Mapping[str, Seen]) -> Inspected | None:
    image_id = next((each.result.image for each in seen.values() if each.result.image), None)
    if image_id is None:
        return None
    harnesses = (each.variant.harness for each in seen.values())
    watched = next((h for h in harnesses if isinstance(h, WatchedOracle)), None)
    return Inspected(task, image_id, watched)


def _impossible(case: Case) -> tuple[Finding, ...]:
    """One finding instead of many, where this machine cannot run the task at all."""
    for seen in case.attempts.values():
        if seen.result.outcome is Outcome.UNSUPPORTED:
            text = f"the task cannot be run here, so nothing is proved: {seen.words()}"
            return (Finding(CheckName.REFERENCE, Level.ERROR, text),)
    return ()


def _judged(case: Case) -> CheckedTask:
    checks = _checks(case.options)
    findings = _impossible(case) or tuple(
        finding for check in checks for finding in check.judge(case)
    )
    return CheckedTask(
        task=case.task.name,
        folder=str(case.task.folder),
        checks=tuple(check.name for check in checks),
        findings=findings,
        attempts={arm: seen.words() for arm, seen in sorted(case.attempts.items())},
    )
