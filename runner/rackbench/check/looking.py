"""Looks into the images of checked tasks: each is built once more, and all are read in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import docker
import docker.errors

from rackbench.check.answer import Answer, answers_of
from rackbench.check.image_look import BuiltImage, ImageLook
from rackbench.check.layers import ImageFiles, read_images
from rackbench.check.likeness import Likeness
from rackbench.check.rebuild import Rebuilt, forget, forget_abandoned, rebuild_all
from rackbench.check.repository import find_repositories
from rackbench.check.watched import WatchedOracle
from rackbench.sandbox.docker import DockerSandboxes
from rackbench.sandbox.images import ImageError, Images
from rackbench_harnesses.ports import SandboxError
from rackbench_tasks import Environment, Task

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Inspected:
    """A task whose image is to be looked into."""

    task: Task
    image: str
    """The id of the image that its attempts ran in."""
    watched: WatchedOracle | None
    """Where the reference was run."""


@dataclass(frozen=True, slots=True)
class _Named:
    """An image of a task, by what it is called in a sentence."""

    name: str
    id: str
    environment: Environment


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one pass over all images brought."""

    images: Mapping[str, ImageFiles]
    rebuilt: Mapping[str, Rebuilt]
    """By the image that it is compared with."""
    sizes: Mapping[str, int]
    problem: str = ""


def look_into(
    sandboxes: DockerSandboxes, tasks: Sequence[Inspected], *, rebuild: bool, say: Say
) -> dict[str, ImageLook]:
    """What the images hold, by the task's id."""
    answers = {
        each.task.id: answers_of(each.task, each.watched.changed if each.watched else {})
        for each in tasks
    }
    wanted = frozenset(line for found in answers.values() for a in found for line in a.lines)
    named = {each.task.id: _images_of(each, sandboxes.images) for each in tasks}
    environments = {one.id: one.environment for found in named.values() for one in found}
    rebuilt: dict[str, Rebuilt] = {}
    if rebuild:
        say(f"building {len(environments)} images again, without a cache")
        forget_abandoned(sandboxes.api)
        rebuilt = rebuild_all(sandboxes.images, environments)
    ids = sorted({*environments, *(made.id for made in rebuilt.values() if made.id)})
    say(f"reading {len(ids)} images")
    with TemporaryDirectory(prefix="rackbench-images-") as keep:
        seen = _read(sandboxes.api, ids, rebuilt, wanted=wanted, keep=Path(keep))
        return {
            each.task.id: _look(each, named[each.task.id], seen, answers[each.task.id])
            for each in tasks
        }


def _images_of(each: Inspected, images: Images) -> list[_Named]:
    found = [_Named("the image", each.image, each.task.environment)]
    for stage in each.task.stages:
        environment = stage.verifier.environment
        if not stage.verifier.separate or environment is None:
            continue
        try:
            name = environment.docker_image or (
                images.tag_of(environment.build) if environment.build else ""
            )
            image = images.find(name) if name else None
        except (ImageError, SandboxError):
            continue  # the attempts told it
        if image and all(image.id != one.id for one in found):
            whose = f" of stage {stage.name}" if stage.name else ""
            found.append(_Named(f"the verifier's image{whose}", image.id, environment))
    return found


def _read(
    api: docker.APIClient,
    ids: Sequence[str],
    rebuilt: Mapping[str, Rebuilt],
    *,
    wanted: frozenset[bytes],
    keep: Path,
) -> _Pass:
    try:
        images, problem = read_images(api, ids, wanted=wanted, keep=keep), ""
    except SandboxError as error:
        images, problem = {}, str(error)
    finally:
        for made in rebuilt.values():
            forget(api, made)
    return _Pass(images, rebuilt, {image: _size_bytes(api, image) for image in ids}, problem)


def _look(
    each: Inspected, named: Sequence[_Named], seen: _Pass, answers: Sequence[Answer]
) -> ImageLook:
    files = seen.images.get(each.image, {})
    wanted = frozenset(line for answer in answers for line in answer.lines)
    return ImageLook(
        built=tuple(_built(one, seen) for one in named),
        repositories=tuple(find_repositories(files, Likeness(answers, files), wanted=wanted)),
        answers=tuple(answers),
        visible=tuple(each.watched.visible if each.watched else ()),
        left_out=tuple(each.watched.left_out if each.watched else ()),
    )


def _built(one: _Named, seen: _Pass) -> BuiltImage:
    files, made = seen.images.get(one.id, {}), seen.rebuilt.get(one.id, Rebuilt())
    return BuiltImage(
        name=one.name,
        files=files,
        size_bytes=seen.sizes.get(one.id, 0),
        rebuilt=seen.images.get(made.id) if made.id else None,
        rebuild_problem=made.problem,
        problem=seen.problem or ("" if files else f"the engine did not hand out {one.id}"),
    )


def _size_bytes(api: docker.APIClient, image: str) -> int:
    try:
        found = api.inspect_image(image)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return 0
    return int(found.get("Size") or 0)
