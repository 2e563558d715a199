"""`rackbench show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json, Results, complete_run


def show(
    run: Annotated[
        str,
        typer.Argument(
            help="A run folder, the beginning of a run's id, or last.", autocompletion=complete_run
        ),
    ] = "last",
    trial: Annotated[
        str | None, typer.Argument(help="One trial: task/arm/index, or its beginning.")
    ] = None,
    results: Results = Path("runs"),
    json: Json = False,
) -> None:
    """Show a run's numbers and trials, or one trial step by step."""
    from rackbench.cli import render
    from rackbench.lookup import find_run, summarise_run

    folder = find_run(run, results)
    if trial:
        render.trial(folder, trial, json=json)
    else:
        render.run(folder, summarise_run(folder), json=json)
