"""`rackbench list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json, Results


def list_(
    results: Results = Path("runs"),
    index: Annotated[
        str | None,
        typer.Option(
            help="URL of the index; by default SQLite beside the runs.", envvar="RACKBENCH_INDEX"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List runs, newest first, from the index; it is brought up to date first."""
    from rackbench.cli import render
    from rackbench.errors import UsageError
    from rackbench_results.index import list_runs, open_index, sync

    if not results.is_dir():
        raise UsageError(f"there is no folder {results}; nothing has been run here yet")
    with open_index(index or f"sqlite:///{results / 'index.sqlite'}") as engine:
        sync(engine, results)
        render.runs(list_runs(engine), json=json)
