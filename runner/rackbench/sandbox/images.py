"""Images: found by content, else built or pulled once for all trials that share them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.to_thread
import docker
import docker.errors

from rackbench.sandbox import owner
from rackbench.sandbox.engine import explained
from rackbench_tasks import Build, folder_digest

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

    async def ensure(
        self, wanted: Build | str, *, timeout_seconds: float, on_build: Callable[[str], None]
    ) -> Image:
        """An image by its recipe or its name, built or pulled where it is not there yet.

        Raises ImageError.
        """
        if isinstance(wanted, str):
            name = wanted
        else:
            name = await self._thread(lambda: self.tag_of(wanted))
        async with self._locks.setdefault(name, anyio.Lock()):
            if image := await self._thread(lambda: self.find(name)):
                return image
            on_build(name)
            with anyio.move_on_after(timeout_seconds):
                return await self._make(wanted, name)
            message = f"image {name} was not ready after {timeout_seconds:g} s"
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

    def tag_of(self, build: Build) -> str:
        """A tag that names the content: every file of the context, the recipe, the base images."""
        dockerfile = _dockerfile(build)
        bases = {name: self._id_of(name) for name in _FROM.findall(dockerfile)}
        recipe = [build.dockerfile, sorted(build.args.items()), build.target]
        content = json.dumps([folder_digest(build.context), recipe, bases], sort_keys=True)
        return f"{_REPOSITORY}:{hashlib.sha256(content.encode()).hexdigest()[:32]}"

    def _id_of(self, name: str) -> str | None:
        with explained(f"looking for the base image {name}"):
            image = self.find(name)
        return image.id if image else None

    async def _make(self, wanted: Build | str, name: str) -> Image:
        async with self._builds:
            if isinstance(wanted, str):
                await self._thread(lambda: self._pull(name), abandon=True)
            elif _BUILDKIT_ONLY.search(_dockerfile(wanted)):
                await self._build_with_buildkit(wanted, name)
            else:
                await self._thread(lambda: self._build(wanted, name), abandon=True)
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

    def _build(self, build: Build, tag: str) -> None:
        said: list[str] = []
        try:
            # The engine reports a failed build inside a successful answer.
            for line in self._api.build(
                path=str(build.context),
                dockerfile=build.dockerfile,
                buildargs=dict(build.args),
                target=build.target,
                tag=tag,
                labels={"rackbench.image": "task", owner.OWNER: "shared"},
                rm=True,
                forcerm=True,
                decode=True,
            ):
                said.append(str(line.get("stream", "")).rstrip())
                if "error" in line:
                    _refuse(build, line["error"], said)
        except (docker.errors.DockerException, TypeError) as error:
            _refuse(build, str(getattr(error, "explanation", None) or error), said)

    async def _build_with_buildkit(self, build: Build, tag: str) -> None:
        """Heredocs and mounts need BuildKit, which only the engine's own client speaks."""
        arguments = [x for pair in build.args.items() for x in ("--build-arg", "=".join(pair))]
        if build.target:
            arguments += ["--target", build.target]
        arguments += ["-f", str(build.context / build.dockerfile), str(build.context)]
        built = await anyio.run_process(
            ["docker", "build", "--label", "rackbench.image=task", "-t", tag, *arguments],
            check=False,
            env={**os.environ, "DOCKER_BUILDKIT": "1"},
        )
        if built.returncode:
            _refuse(build, f"exit {built.returncode}", built.stderr.decode().splitlines())

    async def _thread(self, call: Callable[[], T], *, abandon: bool = False) -> T:
        with explained("asking the engine for an image"):
            return await anyio.to_thread.run_sync(call, abandon_on_cancel=abandon)


def _refuse(build: Build, error: str, said: list[str]) -> None:
    lines = [line for line in said if line][-_LAST_LINES:]
    message = f"building {build.context} failed: {error.strip()}" + "".join(
        f"\n  {line}" for line in lines
    )
    raise ImageError(message)


def _dockerfile(build: Build) -> str:
    try:
        return (build.context / build.dockerfile).read_text(errors="replace")
    except OSError as error:
        message = f"{build.context / build.dockerfile}: cannot be read: {error.strerror}"
        raise ImageError(message) from error
