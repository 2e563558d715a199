"""`rackbench task`."""

from __future__ import annotations

import typer

from rackbench.cli import task_check

app = typer.Typer(help="Work on tasks.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


app.command()(task_check.check)
