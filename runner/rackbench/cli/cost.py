"""`rackbench cost`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rackbench.cli.options import Json, Results, complete_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackbench_results.ledger import Ledger


def cost(
    run: Annotated[
        str,
        typer.Argument(
            help="A run folder, the beginning of a run's id, or last.", autocompletion=complete_run
        ),
    ] = "last",
    trials: Annotated[bool, typer.Option("--trials", help="A line for every trial, too.")] = False,
    results: Results = Path("runs"),
    json: Json = False,
) -> None:
    """Show what a run's engines used: hours, money, energy; by activity, arm and method."""
    from rackbench.lookup import find_run, ledgers_of_run

    ledgers = ledgers_of_run(find_run(run, results))
    if json:
        from rackbench.cli import render

        render.data({"ledgers": [ledger.model_dump(mode="json") for ledger in ledgers]})
    else:
        _print(ledgers, trials=trials)


def _print(ledgers: Sequence[Ledger], *, trials: bool) -> None:
    from rackbench.cli import render
    from rackbench_results.ledger_table import ledger_table, trial_costs_table

    out = render.output()
    if not ledgers:
        out.print("no endpoint of this run was up, so it cost no device-hours")
    for ledger in ledgers:
        out.print(ledger_table(ledger))
        if trials:
            out.print()
            out.print(trial_costs_table(ledger))
