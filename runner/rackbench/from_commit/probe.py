"""What an image offers to a task that is made on top of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import docker.errors
from anyio import CancelScope, to_thread

from rackbench.errors import UsageError
from rackbench.from_commit.wheels import Interpreter
from rackbench.sandbox.creation import ContainerSpec
from rackbench.sandbox.docker import DockerSandboxes, labels_of
from rackbench.sandbox.images import Image, ImageError
from rackbench_harnesses.ports import Command
from rackbench_tasks import Build

BUILD_SECONDS = 1800.0
CPUS = 1
MEMORY_MB = 2048
_PROCESSES = 2048
_LAST_LINES = 24
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PROBE = """
command -v git >/dev/null && echo git
python3 -I -c 'import pytest' 2>/dev/null && echo pytest
python3 -I -c 'import sys, platform
print("python", "%d.%d" % sys.version_info[:2], platform.machine(), platform.libc_ver()[1] or "2.17")'
"""


@dataclass(frozen=True, slots=True)
class Probed:
    """An image, looked into."""

    workdir: str
    user: str
    has_git: bool
    has_pytest: bool
    interpreter: Interpreter | None


async def probe(sandboxes: DockerSandboxes, wanted: Build | str) -> Probed:
    """Build or pull an image, and look into a container of it.

    Raises UsageError where there is no such image and it cannot be made.
    """
    image = await ensure(sandboxes, wanted)
    config = await to_thread.run_sync(lambda: _config(sandboxes, image))
    async with sandboxes.start(container_spec(image), on_teardown_error=_ignore) as container:
        done = await container.run(Command(["sh", "-c", _PROBE], cwd="/", timeout_seconds=60))
    words = [line.split() for line in done.text.splitlines()]
    interpreter = None
    for word in words:
        if word[0] == "python":
            major, _, minor = word[3].partition(".")
            interpreter = Interpreter(word[1], word[2], (int(major), int(minor)))
    return Probed(
        workdir=config.get("WorkingDir") or "",
        user=config.get("User") or "",
        has_git=["git"] in words,
        has_pytest=["pytest"] in words,
        interpreter=interpreter,
    )


async def ensure(sandboxes: DockerSandboxes, wanted: Build | str) -> Image:
    """An image, built or pulled where it is not there.

    Raises UsageError.
    """
    try:
        return await sandboxes.images.ensure(
            wanted, timeout_seconds=BUILD_SECONDS, on_build=_ignore
        )
    except ImageError as error:
        first, *rest = _COLOURS.sub("", str(error)).splitlines()
        raise UsageError("\n".join([first, *rest[-_LAST_LINES:]])) from error


@asynccontextmanager
async def built(sandboxes: DockerSandboxes, build: Build) -> AsyncIterator[Image]:
    """An image; where it is new and the context ends with an error, it is removed again.

    Raises UsageError.
    """
    images = sandboxes.images
    name = await to_thread.run_sync(images.tag_of, build)
    was_there = await to_thread.run_sync(images.find, name)
    is_kept = False
    try:
        yield await ensure(sandboxes, build)
        is_kept = True
    finally:
        if not is_kept and not was_there:
            with CancelScope(shield=True):
                await to_thread.run_sync(_remove_image, sandboxes, name)


def container_spec(image: Image) -> ContainerSpec:
    """A sealed sandbox of an image, to look into it or to prove tests in it."""
    return ContainerSpec(
        image=image.id,
        labels=labels_of("task-from-commit", "proof", 1),
        cpus=CPUS,
        memory_bytes=MEMORY_MB * 1024**2,
        processes=_PROCESSES,
        user=image.user or "0",
    )


def _config(sandboxes: DockerSandboxes, image: Image) -> dict[str, Any]:
    about = sandboxes.api.inspect_image(image.id)  # type: ignore[no-untyped-call]
    return about.get("Config") or {}


def _remove_image(sandboxes: DockerSandboxes, name: str) -> None:
    # It may not have come to be, or be in use by another run of the same content.
    with suppress(docker.errors.APIError):
        sandboxes.api.remove_image(name)


def _ignore(_: str) -> None:
    pass
