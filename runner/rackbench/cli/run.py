"""`rackbench run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json, Overrides, Strict


def run(
    file: Annotated[Path, typer.Argument(help="The run file (YAML).")],
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, run nothing.")
    ] = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Run every task with every arm, and report what it was worth."""
    from rackbench.cli import live, render
    from rackbench.launch import plan_run, start_run

    plan, values = plan_run(file, overrides or [], strict=strict)
    for warning in plan.warnings:
        render.warn(warning)
    if dry_run:
        render.plan(plan, json=json)
        return
    with live.display() as observer:
        finished = start_run(plan, values, beside=file.parent.resolve(), observers=[observer])
    render.finished(finished, json=json)
    raise typer.Exit(finished.exit_code)
