"""`rackbench task`."""

from __future__ import annotations

import typer

from rackbench.cli import (
    task_check,
    task_from_commit,
    task_images,
    task_new,
    task_pin,
    task_warm,
)

app = typer.Typer(help="Make, prove and carry tasks.", no_args_is_help=True)

app.command("check")(task_check.check)
app.command("new")(task_new.new)
app.command("from-commit")(task_from_commit.from_commit)
app.command("warm")(task_warm.warm)
app.command("pin")(task_pin.pin)
app.add_typer(task_images.app, name="images")
