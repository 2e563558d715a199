"""`rackbench task pin`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json, Strict


def pin(
    suite: Annotated[
        Path, typer.Argument(help="A suite file, an archive, a folder of tasks, or one task.")
    ],
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Print the digests of a suite's tasks, to be put into the suite file."""
    import os
    import sys
    from json import dumps

    from rackbench.errors import UsageError
    from rackbench_tasks import TaskError, load_suite, pinned

    try:
        loaded = load_suite(suite, strict=strict, host_env=os.environ, to_pin=True)
    except TaskError as error:
        raise UsageError(str(error)) from error
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if json:
        print(dumps({task.id: task.digest for task in loaded.tasks}, indent=2))
    else:
        print(pinned(loaded), end="")
