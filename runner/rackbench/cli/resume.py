"""`rackbench resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json, Overrides, Results, complete_run


def resume(
    run: Annotated[
        str,
        typer.Argument(
            help="A run folder, the beginning of a run's id, or last.", autocompletion=complete_run
        ),
    ] = "last",
    overrides: Overrides = None,
    results: Results = Path("runs"),
    json: Json = False,
) -> None:
    """Go on with a run that was stopped; finished trials are not run again."""
    from rackbench.cli import live, render
    from rackbench.launch import resume_run
    from rackbench.lookup import find_run

    folder = find_run(run, results)
    with live.display() as observer:
        finished = resume_run(folder, overrides or [], [observer])
    render.finished(finished, json=json)
    raise typer.Exit(finished.exit_code)
