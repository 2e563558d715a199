"""Which images tasks need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rackbench.sandbox.building import ImageError
from rackbench.sandbox.compose import ComposeError, resolve
from rackbench.sandbox.image_names import is_id
from rackbench.sandbox.recipe import read_recipe
from rackbench_tasks import Build, Environment, Task


@dataclass(frozen=True, slots=True)
class Planned:
    """An image that a task needs."""

    recipe: Build | str
    timeout_seconds: float
    """Of building it."""


async def recipes_of(task: Task) -> list[Planned]:
    """Recipes and names of the images that a task's containers are made of.

    Raises ImageError.
    """
    own = _source(task.environment)
    seconds = task.environment.build_timeout_seconds
    found: list[Planned] = []
    if task.environment.compose is None:
        found += [Planned(own, seconds)] if own else []
    else:
        try:
            resolved = await resolve(task.environment.compose, task.environment.env)
            found += (Planned(recipe, seconds) for recipe in resolved.images(own).values())
        except ComposeError as error:
            raise ImageError(f"{task.id}: {error}") from error
    for stage in task.stages:
        environment = stage.verifier.environment
        if stage.verifier.separate and environment and (source := _source(environment)):
            found.append(Planned(source, environment.build_timeout_seconds))
    return found


def names_of(planned: Iterable[Planned]) -> list[str]:
    """Names of images to be had from elsewhere: those taken as they are, and those built upon.

    Raises ImageError.
    """
    names: list[str] = []
    for recipe in (image.recipe for image in planned):
        if isinstance(recipe, str):
            names.append(recipe)
            continue
        try:
            names += read_recipe(recipe).images
        except OSError as error:
            file = recipe.context / recipe.dockerfile
            raise ImageError(f"{file}: cannot be read: {error.strerror}") from error
    return [name for name in dict.fromkeys(names) if not is_id(name)]


def _source(environment: Environment) -> Build | str | None:
    return environment.docker_image or environment.build
