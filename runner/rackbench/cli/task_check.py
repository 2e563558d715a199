"""`rackbench task check`."""

from __future__ import annotations

import json as jsonlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rackbench.cli.options import Json, Overrides, Results, Strict

if TYPE_CHECKING:
    from rackbench.check import CheckedTask, CheckReport

_CHECKS = "reference, stable, idle, sealed, answer, forgery, mutants, size, rebuild, vendor"
_STYLES = {"error": "red", "warning": "yellow", "note": "dim", "ok": "green"}
_EVIDENCE_LINES = 16
_WIDTH_ELSEWHERE = 120


class Profile(StrEnum):
    """A stricter set of rules."""

    TB4_VENDOR = "tb4-vendor"


def check(
    path: Annotated[Path, typer.Argument(help="A task, a folder of tasks, or a suite file.")],
    *,
    times: Annotated[
        int, typer.Option(min=1, help="Runs of the reference; all but the first are varied.")
    ] = 3,
    only: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help=f"Make this check alone: {_CHECKS}.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help="Leave this check out.")
    ] = None,
    profile: Annotated[Profile | None, typer.Option(help="Add a stricter lint.")] = None,
    no_rebuild: Annotated[
        bool, typer.Option("--no-rebuild", help="Do not build images again to compare them.")
    ] = False,
    max_image_mb: Annotated[
        int | None,
        typer.Option(min=1, help="Largest image; default: the task's own limit of disk."),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Attempts at once; default: one per CPU core.")
    ] = None,
    overrides: Overrides = None,
    strict: Strict = False,
    results: Results = Path("runs"),
    json: Json = False,
) -> None:
    """Prove tasks: solvable, unsolved by doing nothing, not to be forged, and the same each time."""
    from rackbench.check import CheckOptions, chosen_checks, judge, run_attempts
    from rackbench.cli import live
    from rackbench.cli.render import console

    left_out = [*(skip or ()), *(["rebuild"] if no_rebuild else [])]
    checks = chosen_checks(only or (), left_out, vendor=profile is not None)
    options = CheckOptions(
        times=times,
        strict=strict,
        checks=checks,
        max_image_mb=max_image_mb,
        slots=slots,
        results=results,
        overrides=tuple(overrides or ()),
    )
    with live.display() as observer:
        attempts = run_attempts(path, options, observer=observer)
    if attempts.interrupted:
        console().print(f"stopped; what was done is in {attempts.folder.path}", markup=False)
        raise typer.Exit(130)
    report = judge(attempts, options, say=lambda text: console().print(text, markup=False))
    _render(report, json=json)
    raise typer.Exit(0 if report.proved else 1)


def _render(report: CheckReport, *, json: bool) -> None:
    if json:
        text = jsonlib.dumps(report.record(), indent=2, ensure_ascii=False)
        print(text.encode(errors="replace").decode())  # names of files need not be text
        return
    for task in report.tasks:
        _render_task(task)
    proved = sum(task.proved for task in report.tasks)
    print(f"\n{proved} of {len(report.tasks)} tasks proved; every attempt: {report.folder}")


def _render_task(task: CheckedTask) -> None:
    from rich.console import Console
    from rich.text import Text

    from rackbench_results.table import safe_text

    out = Console(width=None if sys.stdout.isatty() else _WIDTH_ELSEWHERE)
    mark = Text("ok     ", style="green") if task.proved else Text("FAILED ", style="red")
    states = Text("  ")
    for name in task.checks:
        state = task.state_of(name)
        states += Text(f"{name} ", style=_STYLES[state])
    out.print(mark + safe_text(task.task), soft_wrap=True)
    out.print(Text("       ") + states)
    for finding in task.findings:
        style = _STYLES[finding.level]
        head = Text(f"       {finding.level} {finding.check}: ", style=style)
        out.print(head + safe_text(finding.text), soft_wrap=True)
        if finding.level == "note":
            continue
        for line in finding.evidence[:_EVIDENCE_LINES]:
            out.print(Text("           ") + safe_text(line), soft_wrap=True)
