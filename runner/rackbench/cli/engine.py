"""`rackbench engine`: the engine that comes with the project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json

app = typer.Typer(help="Install vLLM and a small model.", no_args_is_help=True)

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of the installation.", show_default="in the cache"),
]


@app.callback()
def _group() -> None:
    pass


@app.command()
def install(home: Home = None, json: Json = False) -> None:
    """Install vLLM into an environment of its own, with a small model to prove the path."""
    from dataclasses import asdict
    from json import dumps

    from rackbench.engine_install import default_home
    from rackbench.engine_install import install as install_engine

    installed = install_engine(home.resolve() if home else default_home(), report=_say)
    if json:
        print(dumps(asdict(installed), indent=2, default=str))
    else:
        print(f"vllm {installed.version}: {installed.vllm}")
        print(f"model: {installed.model}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
