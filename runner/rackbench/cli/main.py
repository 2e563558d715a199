"""The command line: parses, calls one function, renders."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from rackbench.cli import clean, cost, doctor, engine, resume, run, runs, show, task
from rackbench.errors import Exit, RackbenchError

app = typer.Typer(
    name="rackbench",
    help="What an open model is worth on your own GPUs: real terminal tasks, honest numbers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from rackbench import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("run")(run.run)
app.command("resume")(resume.resume)
app.command("show")(show.show)
app.command("cost")(cost.cost)
app.command("list")(runs.list_)
app.command("clean")(clean.clean)
app.command("doctor")(doctor.doctor)
app.add_typer(task.app, name="task")
app.add_typer(engine.app, name="engine")


def main() -> NoReturn:
    """The console script: every error that a user can mend is one clear message."""
    try:
        app()
    except RackbenchError as error:
        _say(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:  # noqa: BLE001  # the last boundary: a damaged file, or a bug of ours
        import traceback

        from rackbench_results import StoreError

        if isinstance(error, StoreError):
            _say(f"error: {error}")
            sys.exit(Exit.USAGE)
        traceback.print_exc()
        _say(f"internal error: {error!r}; this is a bug, please report it with the lines above")
        sys.exit(70)
    sys.exit(Exit.OK)


def _say(text: str) -> None:
    print(f"rackbench: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
