"""How the engine comes to an image: it pulls one, or builds one from a recipe."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import STDOUT
from typing import IO, NoReturn

import anyio
import anyio.to_thread
import docker
import docker.errors
import requests
from anyio.streams.text import TextReceiveStream
from docker.utils.build import create_archive, exclude_paths

from rackbench.sandbox import owner
from rackbench.sandbox.heredocs import HeredocError, without_heredocs
from rackbench.sandbox.recipe import Recipe

LABELS = {"rackbench.image": "task", owner.OWNER: "shared"}
_DOCKERFILE = ".rackbench.Dockerfile"
_BUILDKIT = {"DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}
_LAST_LINES = 12
_KEPT_LINES = 100
_FIRST_WITH_HEREDOCS = 23  # engines by version; before, they knew none
_FIRST_WITH_PLUGIN = 23  # clients by version


@dataclass(frozen=True, slots=True)
class Wanted:
    """A recipe, and what the engine gets of it."""

    recipe: Recipe
    tag: str
    text: str
    """Of the Dockerfile."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Added to the context."""
    fresh: bool = False
    """Nothing that the builder remembers is used."""

    @property
    def is_changed(self) -> bool:
        """Whether the engine reads another Dockerfile than the task's own."""
        return self.text != self.recipe.written


class ImageError(RuntimeError):
    """An image could not be built, pulled, saved or loaded."""


def pull(api: docker.APIClient, name: str) -> None:
    """Pull an image.

    Raises ImageError.
    """
    problem = ""
    try:
        # The engine reports a failed pull inside a successful answer.
        for line in api.pull(name, stream=True, decode=True):
            problem = line.get("error") or problem
    except (docker.errors.DockerException, requests.RequestException) as error:
        problem = str(getattr(error, "explanation", None) or error)
    if problem:
        message = (
            f"image {name} is not on this machine and could not be pulled: {problem.strip()}; "
            "where there is a network, `rackbench task images save` writes it to a folder, "
            "which `rackbench task images load` reads here"
        )
        raise ImageError(message)


async def build(
    api: docker.APIClient,
    recipe: Recipe,
    tag: str,
    *,
    names: Mapping[str, str],
    seconds: float,
    fresh: bool = False,
) -> None:
    """Build an image, its base images called by `names`; if `fresh`, without the builder's cache.

    With BuildKit where a client for it is here, as `docker build` does; else with the engine's
    first builder. Raises ImageError with the builder's last lines, also after so many seconds.
    """
    client = await _buildkit_client()
    wanted = Wanted(recipe, tag, recipe.text(names), fresh=fresh)
    if recipe.has_heredocs and (client is None or not await _knows_heredocs(api)):
        wanted = _reworded(wanted)
    said: list[str] = []
    with anyio.move_on_after(seconds) as limit:
        if client is not None and not wanted.files:
            await _build_with_buildkit(wanted, client, said)
        elif recipe.needs_buildkit:
            _refuse(recipe, _without_buildkit(client), said)
        else:
            await _build_with_first(api, wanted, said, seconds=seconds)
    if limit.cancelled_caught:
        _refuse(recipe, f"it was not ready after {seconds:g} s", said)


async def _build_with_first(
    api: docker.APIClient, wanted: Wanted, said: list[str], *, seconds: float
) -> None:
    given_up = threading.Event()
    try:
        await anyio.to_thread.run_sync(
            lambda: _build(api, wanted, said, given_up=given_up, seconds=seconds),
            abandon_on_cancel=True,
        )
    finally:
        given_up.set()


async def _knows_heredocs(api: docker.APIClient) -> bool:
    version = await anyio.to_thread.run_sync(lambda: str(api.version()["Version"]))
    return int(version.partition(".")[0]) >= _FIRST_WITH_HEREDOCS


def _without_buildkit(client: str | None) -> str:
    if client is None:
        return (
            "it needs BuildKit, and no client here speaks it; install Docker's buildx plugin "
            "(`docker buildx version` must answer)"
        )
    return (
        f"it copies heredocs, which an engine knows from version {_FIRST_WITH_HEREDOCS} on, and "
        "has flags that only BuildKit knows; write the heredocs into files beside it"
    )


def _reworded(wanted: Wanted) -> Wanted:
    """What older readers of Dockerfiles understand."""
    try:
        reworded = without_heredocs(wanted.text, wanted.recipe.build.args)
    except HeredocError as error:
        _refuse(
            wanted.recipe,
            f"it has {error}, which an engine knows from version {_FIRST_WITH_HEREDOCS} on",
            [],
        )
    return replace(wanted, text=reworded.text, files=reworded.files)


def _build(
    api: docker.APIClient,
    wanted: Wanted,
    said: list[str],
    *,
    given_up: threading.Event,
    seconds: float,
) -> None:
    recipe = wanted.recipe
    try:
        with _context(wanted) as context:
            # The engine reports a failed build inside a successful answer.
            for line in api.build(
                fileobj=context,
                custom_context=True,
                dockerfile=_DOCKERFILE if wanted.is_changed else recipe.build.dockerfile,
                buildargs=dict(recipe.build.args),
                target=recipe.build.target,
                tag=wanted.tag,
                labels=LABELS,
                nocache=wanted.fresh,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=int(seconds) + 1,
            ):
                said.append(str(line.get("stream", "")).rstrip())
                if "error" in line:
                    _refuse(recipe, line["error"], said)
                if given_up.is_set():
                    return  # the engine stops a build that nobody listens to
    except (docker.errors.DockerException, requests.RequestException, OSError, TypeError) as error:
        _refuse(recipe, str(getattr(error, "explanation", None) or error), said)


def _context(wanted: Wanted) -> IO[bytes]:
    """The files that the engine gets, as an archive."""
    build = wanted.recipe.build
    ignored = list(_ignored(build.context))
    added = dict(wanted.files)
    if wanted.is_changed:
        # Beside the task's own, and in no image: the engine drops what the list names.
        added[_DOCKERFILE] = wanted.text
        added[".dockerignore"] = "\n".join([*ignored, ".dockerignore", _DOCKERFILE])
    kept = exclude_paths(str(build.context), ignored, dockerfile=build.dockerfile)
    packed = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    create_archive(
        str(build.context), files=sorted(kept), fileobj=packed, extra_files=list(added.items())
    )
    return packed


def _ignored(context: Path) -> Iterator[str]:
    try:
        lines = (context / ".dockerignore").read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        return
    for line in map(str.strip, lines):
        if line and not line.startswith("#"):
            yield line


async def _build_with_buildkit(wanted: Wanted, program: str, said: list[str]) -> None:
    recipe, build = wanted.recipe, wanted.recipe.build
    arguments = [x for pair in build.args.items() for x in ("--build-arg", "=".join(pair))]
    arguments += [x for pair in LABELS.items() for x in ("--label", "=".join(pair))]
    if build.target:
        arguments += ["--target", build.target]
    if wanted.fresh:
        arguments.append("--no-cache")
    with tempfile.TemporaryDirectory(prefix="rackbench-build-") as scratch:
        file = Path(scratch) / "Dockerfile"
        file.write_text(wanted.text)
        own_list = build.context / f"{build.dockerfile}.dockerignore"
        if own_list.is_file():
            shutil.copy(own_list, f"{file}.dockerignore")
        command = [program, "build", "-t", wanted.tag, *arguments, "-f", str(file)]
        async with await anyio.open_process(
            [*command, str(build.context)], stderr=STDOUT, env={**os.environ, **_BUILDKIT}
        ) as process:
            assert process.stdout is not None
            async for line in TextReceiveStream(process.stdout, errors="replace"):
                said += line.splitlines()
                del said[:-_KEPT_LINES]
            code = await process.wait()
    if code:
        _refuse(recipe, f"exit {code}", said)


async def _buildkit_client() -> str | None:
    """A client that builds with BuildKit: older ones have it inside, newer ones as a plug-in."""
    folders = os.get_exec_path()
    found = dict.fromkeys(filter(None, (shutil.which("docker", path=path) for path in folders)))
    for program in found:
        plugin = await anyio.run_process([program, "buildx", "version"], check=False)
        if plugin.returncode == 0:
            return program
        asked = [program, "version", "--format", "{{.Client.Version}}"]
        version = (await anyio.run_process(asked, check=False)).stdout.decode()
        major = version.partition(".")[0]
        if major.isdecimal() and int(major) < _FIRST_WITH_PLUGIN:
            return program
    return None


def _refuse(recipe: Recipe, error: str, said: Sequence[str]) -> NoReturn:
    build = recipe.build
    lines = [line for line in said if line.strip()][-_LAST_LINES:]
    message = (
        f"building {build.context / build.dockerfile} with the context {build.context} failed: "
        + error.strip()
        + "".join(f"\n  {line}" for line in lines)
    )
    raise ImageError(message)
