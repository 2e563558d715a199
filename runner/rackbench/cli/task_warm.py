"""`rackbench task warm`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rackbench.cli.options import Json
from rackbench.errors import Exit

if TYPE_CHECKING:
    from rackbench.verifier_tools import Missing, Warmed


def warm(
    suite: Annotated[Path, typer.Argument(help="A task, a folder of tasks, or a suite file.")],
    to: Annotated[
        Path | None, typer.Option(help="The tool folder; ~/.cache/rackbench/verifier-tools.")
    ] = None,
    python: Annotated[
        list[Path] | None,
        typer.Option(metavar="PREFIX", help="A Python of this machine to lend; several times."),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="A package beside those asked for; several times."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Do not fetch requests that name it, such as torch."),
    ] = None,
    json: Json = False,
) -> None:
    """Fetch what the verifiers of a suite install, so that they need no internet."""
    import os

    from rackbench.verifier_tools import default_folder, warm_tools
    from rackbench_tasks import load_suite

    warmed = warm_tools(
        load_suite(suite, strict=False, host_env=os.environ),
        to or default_folder(),
        pythons=python or [],
        packages=package or [],
        without=without or [],
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    _print(warmed, json=json)
    if warmed.missing:
        raise typer.Exit(Exit.VOIDS)


def _print(warmed: Warmed, *, json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    if json:
        print(dumps(asdict(warmed), indent=2, ensure_ascii=False, default=str))
        return
    print(f"{warmed.folder}: {warmed.bytes / 1e6:.0f} MB, {warmed.digest}")
    pythons = ", ".join(warmed.pythons) or "none (images must hold their own)"
    print(f"uv {warmed.uv}; Pythons: {pythons}; {warmed.packages} packages")
    _print_missing("could not be had", warmed.missing)
    _print_missing("must be in the image", warmed.notes)


def _print_missing(heading: str, items: tuple[Missing, ...]) -> None:
    if items:
        print(f"\n{heading}:")
    for item in items:
        shown = ", ".join(item.tasks[:5]) + (" …" if len(item.tasks) > 5 else "")
        print(f"  {item.what}: {item.why}" + (f" [{shown}]" if shown else ""))
