"""`rackbench task new`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from rackbench.new_task import DEFAULT_BASE, Language, Network, Verifier

Choice = TypeVar("Choice", bound=StrEnum)


def new(
    name: Annotated[
        str | None,
        typer.Argument(help="The task's id, such as acme/fix-it; its end names the folder."),
    ] = None,
    *,
    to: Annotated[Path, typer.Option(help="Folder in which the task's own is made.")] = Path(),
    verifier: Annotated[
        Verifier | None, typer.Option(help="Where the tests run. Default: separate.")
    ] = None,
    base: Annotated[
        str | None, typer.Option(help=f"Image to start from. Default: {DEFAULT_BASE}.")
    ] = None,
    language: Annotated[
        Language | None, typer.Option(help="What the example is written in. Default: python.")
    ] = None,
    network: Annotated[
        Network | None, typer.Option(help="What the agent may reach. Default: no-network.")
    ] = None,
) -> None:
    """Write a new task's skeleton, which passes `rackbench task check` as it is.

    On a terminal, asks for what is not given.
    """
    from rackbench.errors import UsageError
    from rackbench.new_task import Skeleton, write_skeleton

    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if name is None:
        if not asks:
            raise UsageError("name the task: rackbench task new NAME")
        name = typer.prompt("Name of the task", err=True)
    skeleton = Skeleton(
        name=name or "",
        to=to,
        language=_choice(language, Language.PYTHON, "Language", asks=asks),
        verifier=_choice(verifier, Verifier.SEPARATE, "Container of the tests", asks=asks),
        network=_choice(network, Network.NO_NETWORK, "Network of the agent", asks=asks),
        base=base or _base(asks=asks),
    )
    folder = write_skeleton(skeleton)
    print(folder)
    print(
        f"edit {folder}/instruction.md and what is beside it, then: rackbench task check {folder}",
        file=sys.stderr,
    )


def _choice(given: Choice | None, default: Choice, question: str, *, asks: bool) -> Choice:
    """What was given, else what is asked for on a terminal, else the default."""
    if given is not None or not asks:
        return given or default
    from rich.console import Console
    from rich.prompt import Prompt

    choices = [choice.value for choice in type(default)]
    answer = Prompt.ask(
        question, choices=choices, default=default.value, console=Console(stderr=True)
    )
    return type(default)(answer)


def _base(*, asks: bool) -> str:
    if not asks:
        return DEFAULT_BASE
    return str(typer.prompt("Image to start from", default=DEFAULT_BASE, err=True))
