"""`rackbench task`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json, Results, Strict

app = typer.Typer(help="Work on tasks.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="A task, a folder of tasks, or a suite file.")],
    times: Annotated[int, typer.Option(min=1, help="How often the reference must solve it.")] = 1,
    strict: Strict = False,
    results: Results = Path("runs"),
    json: Json = False,
) -> None:
    """Prove tasks: the reference solves each, doing nothing solves none."""
    from rackbench.check import check_tasks
    from rackbench.cli import live, render

    with live.display() as observer:
        checked = check_tasks(path, times=times, strict=strict, results=results, observer=observer)
    render.checked(checked, json=json)
    raise typer.Exit(0 if all(task.proved for task in checked) else 1)
