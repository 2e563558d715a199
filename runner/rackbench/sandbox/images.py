"""Images: found by content, else built or pulled once for all trials that share them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import anyio
import anyio.to_thread
import docker
import docker.errors

from rackbench.sandbox.building import ImageError, build, pull
from rackbench.sandbox.engine import explained
from rackbench.sandbox.image_names import ImageMap, is_id, name_of_id
from rackbench.sandbox.recipe import Recipe, read_recipe
from rackbench_tasks import Build, folder_digest

__all__ = ["Image", "ImageError", "Images"]

T = TypeVar("T")

_REPOSITORY = "rackbench/task"


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the engine, ready to be started."""

    id: str
    """sha256 of its configuration: the identity that results record."""
    user: str
    architecture: str
    size_bytes: int
    mapped: Mapping[str, str] = field(default_factory=dict)
    """By the names that its task has for images, the ids that the image map put in their place."""
    notes: tuple[str, ...] = ()
    """What of its recipe was not followed."""


class Images:
    """Finds, builds and pulls; the same content is worked on once at a time."""

    def __init__(
        self,
        api: docker.APIClient,
        *,
        builds_at_once: int,
        image_map: Mapping[str, str] | None = None,
    ) -> None:
        self._api = api
        self._map = ImageMap(image_map or {})
        self._builds = anyio.CapacityLimiter(builds_at_once)
        self._pulls = anyio.CapacityLimiter(1)
        self._locks: dict[str, anyio.Lock] = {}

    async def ensure(
        self, wanted: Build | str, *, timeout_seconds: float, on_build: Callable[[str], None]
    ) -> Image:
        """An image by its recipe or its name, built or pulled where it is not there yet.

        Raises ImageError.
        """
        if isinstance(wanted, str):
            return await self._named(wanted, timeout_seconds, on_build)
        recipe = await self._thread(lambda: _recipe(wanted))
        for base in recipe.pullable:
            await self._named(base, timeout_seconds, on_build)
        tag = await self._thread(lambda: self._tag(recipe))

        async def make() -> None:
            names = await self._thread(lambda: self._local_names(recipe))
            async with self._builds:
                await build(self._api, recipe, tag, names=names, seconds=timeout_seconds)

        with explained(f"building {wanted.context}"):
            image = await self._made(tag, make, on_build)
        return replace(image, mapped=await self._mapped(recipe.images), notes=recipe.notes)

    async def build_again(self, wanted: Build, tag: str, *, timeout_seconds: float) -> Image:
        """An image built once more under another tag, without anything that the builder remembers.

        Raises ImageError.
        """
        recipe = await self._thread(lambda: _recipe(wanted))
        names = await self._thread(lambda: self._local_names(recipe))

        async def make() -> None:
            async with self._builds:
                await build(
                    self._api, recipe, tag, names=names, seconds=timeout_seconds, fresh=True
                )

        with explained(f"building {wanted.context} again"):
            return await self._made(tag, make, lambda _: None)

    def find(self, name: str) -> Image | None:
        """An image that the engine already has.

        Raises ImageError where the image map has a name for it, which the engine has not.
        """
        local = self._map.get(name)
        try:
            found = self._api.inspect_image(local or name)  # type: ignore[no-untyped-call]
        except docker.errors.ImageNotFound:
            if local is None:
                return None
            message = (
                f"image {name} is {local} by the image map, and that is not on this machine; "
                "load its archive with `rackbench task images load`"
            )
            raise ImageError(message) from None
        config = found.get("Config") or {}
        return Image(
            id=found["Id"],
            user=config.get("User") or "",
            architecture=found.get("Architecture", ""),
            size_bytes=int(found.get("Size") or 0),
        )

    def tag_of(self, wanted: Build) -> str:
        """A tag that names the content: every file of the context, the recipe, the base images."""
        return self._tag(_recipe(wanted))

    def _tag(self, recipe: Recipe) -> str:
        bases = {name: self._id_of(name) for name in recipe.images}
        made = recipe.build
        how = [made.dockerfile, sorted(made.args.items()), made.target]
        content = json.dumps([folder_digest(made.context), how, bases], sort_keys=True)
        return f"{_REPOSITORY}:{hashlib.sha256(content.encode()).hexdigest()[:32]}"

    def _id_of(self, name: str) -> str | None:
        with explained(f"looking for the base image {name}"):
            image = self.find(name)
        return image.id if image else None

    def _local_names(self, recipe: Recipe) -> dict[str, str]:
        """What a Dockerfile must say for the map to hold; an id needs a name for that."""
        names: dict[str, str] = {}
        for name in recipe.images:
            local = self._map.get(name)
            if local is not None and is_id(local):
                own_name = name_of_id(local)
                self._api.tag(local, *own_name)
                local = ":".join(own_name)
            if local is not None:
                names[name] = local
        return names

    async def _mapped(self, names: tuple[str, ...]) -> dict[str, str]:
        found = {}
        for name in names:
            if self._map.get(name) and (image := await self._thread(lambda n=name: self.find(n))):  # type: ignore[misc]
                found[name] = image.id
        return found

    async def _named(
        self, name: str, timeout_seconds: float, on_build: Callable[[str], None]
    ) -> Image:
        async def make() -> None:
            async with self._pulls:
                with anyio.move_on_after(timeout_seconds) as limit:
                    await self._thread(lambda: pull(self._api, name), abandon=True)
            if limit.cancelled_caught:
                message = f"image {name} was not pulled after {timeout_seconds:g} s"
                raise ImageError(message)

        image = await self._made(name, make, on_build)
        return replace(image, mapped={name: image.id} if self._map.get(name) else {})

    async def _made(
        self, name: str, make: Callable[[], Awaitable[None]], on_build: Callable[[str], None]
    ) -> Image:
        """An image by its name, made where it is not there yet."""
        async with self._locks.setdefault(name, anyio.Lock()):
            if image := await self._thread(lambda: self.find(name)):
                return image
            on_build(name)
            await make()
            image = await self._thread(lambda: self.find(name))
        if image is None:
            message = f"image {name} was made, and is not there: is another program pruning?"
            raise ImageError(message)
        return image

    async def _thread(self, call: Callable[[], T], *, abandon: bool = False) -> T:
        with explained("asking the engine for an image"):
            return await anyio.to_thread.run_sync(call, abandon_on_cancel=abandon)


def _recipe(wanted: Build) -> Recipe:
    try:
        return read_recipe(wanted)
    except OSError as error:
        message = f"{wanted.context / wanted.dockerfile}: cannot be read: {error.strerror}"
        raise ImageError(message) from error
