"""Builds images once more without a cache, to see whether they come out the same."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import anyio
import docker
import docker.errors
import psutil

from rackbench.sandbox.images import ImageError, Images
from rackbench_harnesses.ports import SandboxError
from rackbench_tasks import Environment

_REPOSITORY = "rackbench/rebuilt"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """An image built again, or why it could not be."""

    tag: str = ""
    id: str = ""
    problem: str = ""


def rebuild_all(images: Images, environments: Mapping[str, Environment]) -> dict[str, Rebuilt]:
    """Each environment's image anew, by the same key; what names a finished image is left out."""
    return anyio.run(_rebuild_all, images, environments)


def forget_abandoned(api: docker.APIClient) -> None:
    """Remove what checks that are dead had built again; their tags begin with their process."""
    for row in api.images(name=_REPOSITORY):
        for tag in row.get("RepoTags") or ():
            pid = tag.rpartition(":")[2].partition("-")[0]
            if pid.isdecimal() and not psutil.pid_exists(int(pid)):
                forget(api, Rebuilt(tag))


def forget(api: docker.APIClient, rebuilt: Rebuilt) -> None:
    """Remove what was built again."""
    if rebuilt.tag:
        try:
            api.remove_image(rebuilt.tag)
        except docker.errors.APIError:
            return  # gone already, or in use: its labels name it


async def _rebuild_all(
    images: Images, environments: Mapping[str, Environment]
) -> dict[str, Rebuilt]:
    done: dict[str, Rebuilt] = {}

    async def rebuild(key: str, environment: Environment) -> None:
        done[key] = await _rebuild(images, environment)

    async with anyio.create_task_group() as group:
        for key, environment in environments.items():
            if environment.build and not environment.docker_image:
                group.start_soon(rebuild, key, environment)
    return done


async def _rebuild(images: Images, environment: Environment) -> Rebuilt:
    assert environment.build
    tag = f"{_REPOSITORY}:{os.getpid()}-{secrets.token_hex(8)}"
    try:
        image = await images.build_again(
            environment.build, tag, timeout_seconds=environment.build_timeout_seconds
        )
    except (ImageError, SandboxError) as error:
        return Rebuilt(problem=str(error))
    return Rebuilt(tag, image.id)
