"""`rackbench task images`."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from rackbench.cli.options import Json

app = typer.Typer(help="Carry images to machines without a network.", no_args_is_help=True)


@app.command()
def save(
    suite: Annotated[Path, typer.Argument(help="A task, a folder of tasks, or a suite file.")],
    to: Annotated[Path, typer.Option("--to", help="Folder for the archives.")],
    built: Annotated[
        bool, typer.Option("--built", help="Build the tasks' own images, and save them too.")
    ] = False,
    json: Json = False,
) -> None:
    """Save every image that the tasks need; what is missing is pulled, one at a time."""
    from rackbench.cli import render
    from rackbench.errors import Exit
    from rackbench.image_transfer import save_task_images

    saved = save_task_images(suite, to, built=built, progress=_say)
    if json:
        images = {name: image.model_dump(mode="json") for name, image in saved.images.items()}
        answer = {"folder": str(to), "images": images, "written": saved.written}
        print(jsonlib.dumps({**answer, "problems": saved.problems}, indent=2))
    else:
        archives = {image.file: image.size_bytes for image in saved.images.values()}
        print(
            f"{len(saved.images)} images in {len(archives)} archives of "
            f"{sum(archives.values()) / 1e6:,.0f} MB, {saved.written} written now: {to}"
        )
    for problem in saved.problems:
        render.warn(problem)
    raise typer.Exit(Exit.PREREQUISITE if saved.problems else Exit.OK)


@app.command()
def load(
    folder: Annotated[Path, typer.Argument(help="What `rackbench task images save` wrote.")],
    json: Json = False,
) -> None:
    """Load the images that this machine has not yet, and print the image map."""
    from rackbench.image_transfer import load_task_images

    found = load_task_images(folder, progress=_say)
    if json:
        print(jsonlib.dumps({"folder": str(folder), "image_map": found}, indent=2))
    else:
        for name, image_id in found.items():
            print(f"{image_id[:19]}  {name}")
    _say(f"for a run: --set sandbox.image_map={folder}")


def _say(text: str) -> None:
    from rackbench.cli import render

    render.console().print(text, markup=False, highlight=False, soft_wrap=True)
