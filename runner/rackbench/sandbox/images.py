"""Images: found by content, else built or pulled once for all trials that share them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
import docker
import docker.errors

from rackbench.sandbox import owner
from rackbench.sandbox.container import explained
from rackbench_tasks import Environment, folder_digest

T = TypeVar("T")

_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)
_BUILDKIT_ONLY = re.compile(r"^\s*RUN\s+.*--mount=|<<-?['\"]?\w+", re.MULTILINE)
_REPOSITORY = "rackbench/task"
_LAST_LINES = 12


class ImageError(RuntimeError):
    """An image could not be built or pulled: the attempt is void."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the engine, ready to be started."""

    id: str
    """sha256 of its configuration: the identity that results record."""
    user: str
    architecture: str
    size_bytes: int


class Images:
    """Finds, builds and pulls; the same content is worked on once at a time."""

    def __init__(self, api: docker.APIClient, *, builds_at_once: int) -> None:
        self._api = api
        self._builds = anyio.CapacityLimiter(builds_at_once)
        self._locks: dict[str, anyio.Lock] = {}

    async def ensure(self, environment: Environment, *, on_build: Callable[[str], None]) -> Image:
        """The image of a task's environment, built or pulled where it is not there yet.

        Raises ImageError.
        """
        if environment.docker_image:
            name = environment.docker_image
        else:
            assert environment.dockerfile_context is not None
            context = environment.dockerfile_context
            name = await self._thread(lambda: self.tag_of(context))
        async with self._locks.setdefault(name, anyio.Lock()):
            if image := await self._thread(lambda: self.find(name)):
                return image
            on_build(name)
            with anyio.move_on_after(environment.build_timeout_seconds):
                return await self._make(environment, name)
            message = f"image {name} was not ready after {environment.build_timeout_seconds:g} s"
            raise ImageError(message)

    def find(self, name: str) -> Image | None:
        """An image that the engine already has."""
        try:
            found = self._api.inspect_image(name)  # type: ignore[no-untyped-call]
        except docker.errors.ImageNotFound:
            return None
        config = found.get("Config") or {}
        return Image(
            id=found["Id"],
            user=config.get("User") or "",
            architecture=found.get("Architecture", ""),
            size_bytes=int(found.get("Size") or 0),
        )

    def tag_of(self, context: Path) -> str:
        """A tag that names the content: every file of the context, and the base images."""
        dockerfile = (context / "Dockerfile").read_text(errors="replace")
        bases = {name: self._id_of(name) for name in _FROM.findall(dockerfile)}
        content = json.dumps([folder_digest(context), bases], sort_keys=True)
        return f"{_REPOSITORY}:{hashlib.sha256(content.encode()).hexdigest()[:32]}"

    def _id_of(self, name: str) -> str | None:
        with explained(f"looking for the base image {name}"):
            image = self.find(name)
        return image.id if image else None

    async def _make(self, environment: Environment, name: str) -> Image:
        async with self._builds:
            if environment.docker_image:
                await self._thread(lambda: self._pull(name), abandon=True)
            elif _needs_buildkit(environment.dockerfile_context):
                await self._build_with_buildkit(environment.dockerfile_context, name)
            else:
                context = environment.dockerfile_context
                assert context is not None
                await self._thread(lambda: self._build(context, name), abandon=True)
        image = await self._thread(lambda: self.find(name))
        if image is None:
            message = f"image {name} was made, and is not there: is another program pruning?"
            raise ImageError(message)
        return image

    def _pull(self, name: str) -> None:
        try:
            self._api.pull(name)
        except docker.errors.APIError as error:
            message = (
                f"image {name} is not on this machine and could not be pulled: "
                f"{error.explanation}; load it from a file with `docker load`"
            )
            raise ImageError(message) from error

    def _build(self, context: Path, tag: str) -> None:
        said: list[str] = []
        try:
            # The engine reports a failed build inside a successful answer.
            for line in self._api.build(
                path=str(context),
                tag=tag,
                labels={"rackbench.image": "task", owner.OWNER: "shared"},
                rm=True,
                forcerm=True,
                decode=True,
            ):
                said.append(str(line.get("stream", "")).rstrip())
                if "error" in line:
                    _refuse(context, line["error"], said)
        except (docker.errors.DockerException, TypeError) as error:
            _refuse(context, str(getattr(error, "explanation", None) or error), said)

    async def _build_with_buildkit(self, context: Path | None, tag: str) -> None:
        """Heredocs and mounts need BuildKit, which only the engine's own client speaks."""
        built = await anyio.run_process(
            ["docker", "build", "--label", "rackbench.image=task", "-t", tag, str(context)],
            check=False,
            env={**os.environ, "DOCKER_BUILDKIT": "1"},
        )
        if built.returncode:
            _refuse(context, f"exit {built.returncode}", built.stderr.decode().splitlines())

    async def _thread(self, call: Callable[[], T], *, abandon: bool = False) -> T:
        with explained("asking the engine for an image"):
            return await anyio.to_thread.run_sync(call, abandon_on_cancel=abandon)


def _refuse(context: Path | None, error: str, said: list[str]) -> None:
    lines = [line for line in said if line][-_LAST_LINES:]
    message = f"building {context} failed: {error.strip()}" + "".join(f"\n  {x}" for x in lines)
    raise ImageError(message)


def _needs_buildkit(context: Path | None) -> bool:
    assert context is not None
    return bool(_BUILDKIT_ONLY.search((context / "Dockerfile").read_text(errors="replace")))
