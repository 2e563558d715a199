"""What the commands print: data on standard output, everything else on standard error."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackbench.errors import UsageError
from rackbench_results.records import Call, Result, Step
from rackbench_results.store import RunFolder, read_lines
from rackbench_results.summary import Summary
from rackbench_results.table import safe_text, summary_table, trials_table

if TYPE_CHECKING:
    from rackbench.launch import Finished
    from rackbench.plan import Plan

_WIDTH_ELSEWHERE = 120
_SHOWN_CHARACTERS = 4000
_FAILED = ("failed", "error")
_SHOWN_TESTS = 20


def console() -> Console:
    """Standard error, for people."""
    return Console(stderr=True)


def output() -> Console:
    """Standard output; wide enough to be read where it is not a terminal."""
    width = None if sys.stdout.isatty() else _WIDTH_ELSEWHERE
    return Console(width=width)


def data(value: object) -> None:
    """Data for programs, on standard output."""
    print(jsonlib.dumps(value, indent=2, ensure_ascii=False, default=str))


def warn(text: str) -> None:
    """A warning, on standard error."""
    console().print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)


def plan(plan: Plan, *, json: bool) -> None:
    """What a run would do."""
    record = plan.record()
    if json:
        data(record)
        return
    out = output()
    tasks = Table(title=f"{len(plan.tasks)} tasks", title_justify="left", box=None)
    for column in ("task", "cpus", "memory", "agent s", "verifier s", "network", "needs"):
        tasks.add_column(column)
    for task in plan.tasks:
        limits = plan.resources(task)
        tasks.add_row(
            safe_text(task.name),
            f"{limits.cpus:g}",
            f"{limits.memory_bytes // 1024**2} MiB",
            f"{limits.agent_seconds:g}",
            f"{limits.verifier_seconds:g}",
            limits.network,
            ", ".join(task.needs) or "–",
        )
    out.print(tasks)
    arms = Table(title=f"\n{len(plan.arms)} arms", title_justify="left", box=None)
    for column in ("arm", "harness", "endpoint", "model", "digest"):
        arms.add_column(column)
    for arm in plan.arms:
        identity = plan.identity_of(arm)
        arms.add_row(
            arm.name,
            f"{arm.harness.name} {arm.harness.version}",
            arm.endpoint or "–",
            safe_text(identity.model) if identity else "–",
            arm.digest(identity)[:19],
        )
    out.print(arms)
    for endpoint in plan.endpoints.values():
        for line in endpoint.profile.assumed:
            out.print(Text(f"assumed ({endpoint.profile.name}): {line}"))
    out.print(Text(f"\n{len(plan.trials)} trials, order by seed {plan.spec.seed}"))


def finished(run: Finished, *, json: bool) -> None:
    """The end of a run."""
    if json:
        data({"run": str(run.folder.path), **run.summary.model_dump(mode="json")})
    else:
        output().print(summary_table(run.summary))
        print(f"\n{run.folder.path}")
    if run.exit_code == 130:
        console().print(Text(f"stopped; go on with: rackbench resume {run.folder.path.name}"))


def run(folder: RunFolder, summary: Summary, *, json: bool) -> None:
    """A run's numbers and trials."""
    results = folder.final_results()
    if json:
        data(
            {
                "run": str(folder.path),
                "summary": summary.model_dump(mode="json"),
                "results": [result.model_dump(mode="json") for result in results],
            }
        )
        return
    out = output()
    out.print(summary_table(summary))
    out.print()
    out.print(trials_table(results))


def trial(folder: RunFolder, name: str, *, json: bool) -> None:
    """Every attempt of one trial, step by step."""
    found = [
        (path, result)
        for path, result in folder.results_with_paths()
        if f"{path.parent.parent.parent.name}/{result.arm}/{result.key.index}".startswith(name)
    ]
    if not found:
        raise UsageError(f"there is no trial {name!r} in {folder.path}; names are task/arm/index")
    if json:
        data([_trial_data(path, result) for path, result in found])
        return
    out = output()
    for path, result in found:
        out.rule(Text(f"{path.relative_to(folder.path / 'trials')}"))
        out.print(trials_table([result]))
        for note in result.notes:
            out.print(Text(f"note: {safe_text(note).plain}"))
        for phase in result.phases:
            limit = f" of {phase.limit_seconds:g}" if phase.limit_seconds else ""
            out.print(Text(f"  {phase.name:14} {phase.seconds:8.2f}{limit} s"))
        _print_judged(out, result)
        for step in _lines(path / "agent" / "steps.jsonl", Step):
            _print_step(out, step)


def _print_judged(out: Console, result: Result) -> None:
    """Stages with their rewards, and the tests that failed."""
    for stage in result.stages:
        reward = "not reached" if stage.reward is None else f"reward {stage.reward:g}"
        out.print(Text(f"  stage {safe_text(stage.name).plain}: {reward}"))
    failed = [name for name, status in result.tests.items() if status in _FAILED]
    if result.tests:
        out.print(Text(f"  {len(result.tests)} tests, {len(failed)} failed"))
    for name in failed[:_SHOWN_TESTS]:
        out.print(Text(f"    failed: {safe_text(name).plain}"))
    if len(failed) > _SHOWN_TESTS:
        out.print(Text(f"    and {len(failed) - _SHOWN_TESTS} more, in result.json"))


def _print_step(out: Console, step: Step) -> None:
    out.print(Text(f"\nstep {step.number}", style="bold"))
    for title, text in (("reasoning", step.reasoning or ""), ("", step.message)):
        if text:
            out.print(Text(f"{title}: " if title else "", style="dim") + _cut(text))
    for call in step.tool_calls:
        asked = (call.arguments or {}).get("command", call.raw_arguments)
        out.print(Text(f"$ {call.name}: ", style="cyan") + _cut(str(asked)))
        out.print(_cut(call.observation or ""))


def _trial_data(path: Any, result: Result) -> dict[str, Any]:
    return {
        "folder": str(path),
        "result": result.model_dump(mode="json"),
        "steps": [s.model_dump(mode="json") for s in _lines(path / "agent/steps.jsonl", Step)],
        "calls": [c.model_dump(mode="json") for c in _lines(path / "calls.jsonl", Call)],
    }


def _lines(path: Any, kind: Any) -> list[Any]:
    return list(read_lines(path, kind)) if path.exists() else []


def runs(rows: Sequence[Mapping[str, Any]], *, json: bool) -> None:
    """The list of runs."""
    if json:
        data([dict(row) for row in rows])
        return
    table = Table(box=None)
    for column in ("run", "name", "trials", "solved", "counted", "void", "finished"):
        table.add_column(column, justify="left" if column in ("run", "name") else "right")
    for row in rows:
        table.add_row(*(safe_text(str(row[str(column.header)])) for column in table.columns))
        if row["problem"]:
            warn(f"{row['run']}: {row['problem']}")
    output().print(table)


def cleaned(*, containers: Sequence[str], processes: Sequence[int], json: bool) -> None:
    """What was swept away."""
    if json:
        data({"containers": list(containers), "processes": list(processes)})
        return
    print(f"removed {len(containers)} containers and {len(processes)} processes of dead runs")


def _cut(text: str) -> Text:
    if len(text) > _SHOWN_CHARACTERS:
        left = len(text) - _SHOWN_CHARACTERS
        text = f"{text[:_SHOWN_CHARACTERS]}… ({left:,} more characters)"
    return safe_text(text)
