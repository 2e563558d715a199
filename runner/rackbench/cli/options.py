"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="KEY=VALUE", help="Override a key of the run file: limits.steps=20"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Results = Annotated[
    Path, typer.Option("--results", help="Where run folders are.", envvar="RACKBENCH_RESULTS")
]
Strict = Annotated[bool, typer.Option("--strict", help="Unknown keys in tasks are errors.")]
RunName = Annotated[str, typer.Argument(help="A run folder, the beginning of a run's id, or last.")]


def complete_run(incomplete: str) -> list[str]:
    """Ids of the runs in the default folder, for the shell."""
    found = sorted((path.parent.name for path in Path("runs").glob("*/plan.json")), reverse=True)
    return [name for name in ["last", *found] if name.startswith(incomplete)]
