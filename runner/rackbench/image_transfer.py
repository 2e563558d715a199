"""Images of a suite's tasks, carried from a machine with a network to one without."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from rackbench.errors import PrerequisiteError, UsageError
from rackbench.sandbox.docker import docker_sandboxes
from rackbench.sandbox.image_archives import Saved, load_images, save_images
from rackbench.sandbox.images import ImageError, Images
from rackbench.sandbox.task_images import Planned, names_of, recipes_of
from rackbench_harnesses.ports import SandboxError
from rackbench_tasks import Task, TaskError, load_suite

Progress = Callable[[str], None]


def save_task_images(suite: Path, folder: Path, *, built: bool, progress: Progress) -> Saved:
    """Save what the tasks of a suite need; with `built`, the tasks' own images too.

    Raises UsageError and PrerequisiteError.
    """
    try:
        tasks = load_suite(suite, strict=False, host_env=os.environ).tasks
    except TaskError as error:
        raise UsageError(str(error)) from error
    try:
        with docker_sandboxes() as sandboxes:
            recipes = anyio.run(_recipes, tasks)
            saved = save_images(sandboxes.api, names_of(recipes), folder, progress=progress)
            if not built:
                return saved
            made = anyio.run(_build, sandboxes.images, recipes, progress)
            own = save_images(sandboxes.api, made.tags, folder, progress=progress)
    except (ImageError, SandboxError) as error:
        raise PrerequisiteError(str(error)) from error
    return Saved(
        images={**saved.images, **own.images},
        written=saved.written + own.written,
        problems=tuple(dict.fromkeys((*saved.problems, *made.problems, *own.problems))),
    )


def load_task_images(folder: Path, *, progress: Progress) -> dict[str, str]:
    """Load the images of a folder; returns their ids by the names that tasks have.

    Raises PrerequisiteError.
    """
    try:
        with docker_sandboxes() as sandboxes:
            return load_images(sandboxes.api, folder, progress=progress)
    except (ImageError, SandboxError) as error:
        raise PrerequisiteError(str(error)) from error


@dataclass(slots=True)
class _Built:
    """Images of the tasks' own."""

    tags: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def _recipes(tasks: Sequence[Task]) -> list[Planned]:
    return [planned for task in tasks for planned in await recipes_of(task)]


async def _build(images: Images, recipes: Sequence[Planned], progress: Progress) -> _Built:
    built = _Built()
    for planned in recipes:
        recipe = planned.recipe
        if isinstance(recipe, str):
            continue
        try:
            progress(f"making the image of {recipe.context}")
            await images.ensure(
                recipe,
                timeout_seconds=planned.timeout_seconds,
                on_build=lambda _: None,
            )
            built.tags.append(images.tag_of(recipe))
        except ImageError as error:
            built.problems.append(str(error))
    return built
