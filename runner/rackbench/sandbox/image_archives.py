"""Images as files: saved where there is a network, loaded where there is none."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import docker
import docker.errors
import requests
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rackbench.sandbox.building import ImageError, pull
from rackbench.sandbox.engine import explained
from rackbench.sandbox.image_names import is_id, name_of_id, split_tag

INDEX = "images.json"
_PIECE_BYTES = 1024**2

Progress = Callable[[str], None]


class ArchivedImage(BaseModel):
    """An image in a folder of archives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    image_id: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    size_bytes: int
    """Of the file."""
    sha256: str
    """Of the file."""


class ArchiveIndex(BaseModel):
    """What a folder of archives holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_number: Literal[1] = Field(default=1, alias="schema")
    images: dict[str, ArchivedImage] = Field(default_factory=dict)
    """By the names that tasks have for them."""

    def image_map(self) -> dict[str, str]:
        """Ids of images by their names."""
        return {name: image.image_id for name, image in self.images.items()}


@dataclass(frozen=True, slots=True)
class Saved:
    """What came of saving."""

    images: Mapping[str, ArchivedImage]
    written: int
    """Archives; the others had been there."""
    problems: tuple[str, ...]
    """Of images that are not in the folder."""


def save_images(
    api: docker.APIClient, names: Iterable[str], folder: Path, *, progress: Progress
) -> Saved:
    """Write one archive per image and an index of them; pulls, one at a time, what is missing.

    A finished archive is not written again. Raises ImageError where the folder or the engine
    fails; an image that cannot be had is told in the answer.
    """
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    known = dict(read_index(folder).images) if (folder / INDEX).exists() else {}
    problems: list[str] = []
    saved: dict[str, ArchivedImage] = {}
    written = 0
    for name in dict.fromkeys(names):
        try:
            image_id = _present(api, name, progress)
        except ImageError as error:
            problems.append(str(error))
            continue
        image = next((one for one in known.values() if _is_written(one, image_id, folder)), None)
        if image is None:
            progress(f"saving {name}")
            image = _save(api, image_id, folder)
            written += 1
        saved[name] = known[name] = image
        with _explained(folder):
            _write_index(folder, known)
    return Saved(saved, written, tuple(problems))


def load_images(api: docker.APIClient, folder: Path, *, progress: Progress) -> dict[str, str]:
    """Load what the engine has not yet; returns the ids of all by the names that tasks have.

    A name without a digest is given to its image too, unless another has it. Raises ImageError.
    """
    index = read_index(folder)
    loaded: set[str] = set()
    for name, image in index.images.items():
        if image.image_id not in loaded and not _has(api, image.image_id):
            progress(f"loading {name}")
            _load(api, image, folder)
        if image.image_id not in loaded:
            with explained(f"naming image {image.image_id}"):  # a nameless one would be pruned
                api.tag(image.image_id, *name_of_id(image.image_id))
        loaded.add(image.image_id)
        if "@" not in name and not is_id(name) and not _has(api, name):
            repository, tag = split_tag(name)
            with explained(f"naming an image {name}"):
                api.tag(image.image_id, repository, tag or "latest")
    return index.image_map()


def read_index(folder: Path) -> ArchiveIndex:
    """The index of a folder of archives.

    Raises ImageError.
    """
    file = folder / INDEX
    try:
        return ArchiveIndex.model_validate_json(file.read_bytes())
    except OSError as error:
        message = (
            f"{file}: cannot be read: {error.strerror}; expected a folder that "
            "`rackbench task images save` wrote"
        )
        raise ImageError(message) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ImageError(f"{file}: {where}: {first['msg']}") from error


def read_image_map(path: Path) -> dict[str, str]:
    """Ids or local names of images by the names that tasks have for them.

    `path` is a folder of archives, its index, or a YAML file of names by names. Raises ImageError.
    """
    if path.is_dir():
        return read_index(path).image_map()
    if path.name == INDEX:
        return read_index(path.parent).image_map()
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ImageError(f"{path}: cannot be read as an image map: {error}") from error
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(local, str) for name, local in content.items()
    ):
        raise ImageError(f"{path}: expected a table of local names by the names in tasks")
    return content


def _present(api: docker.APIClient, name: str, progress: Progress) -> str:
    """The id of an image, pulled where the engine has it not."""
    found = _inspected(api, name)
    if found is None:
        progress(f"pulling {name}")
        pull(api, name)
        found = _inspected(api, name)
    if found is None:
        raise ImageError(f"image {name} was pulled, and is not there: is another program pruning?")
    return str(found["Id"])


def _inspected(api: docker.APIClient, name: str) -> Mapping[str, Any] | None:
    with explained(f"looking for image {name}"):
        try:
            found: Mapping[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
        except docker.errors.ImageNotFound:
            return None
    return found


def _has(api: docker.APIClient, name: str) -> bool:
    return _inspected(api, name) is not None


def _is_written(image: ArchivedImage, image_id: str, folder: Path) -> bool:
    file = folder / image.file
    return image.image_id == image_id and file.is_file() and file.stat().st_size == image.size_bytes


def _save(api: docker.APIClient, image_id: str, folder: Path) -> ArchivedImage:
    name = f"{image_id.removeprefix('sha256:')}.tar"
    part = folder / f".{name}.{os.getpid()}.part"
    digest, size = hashlib.sha256(), 0
    try:
        with _explained(folder / name), part.open("wb") as file:
            with explained(f"saving image {image_id}"):
                pieces = api.get_image(image_id, chunk_size=_PIECE_BYTES)
            for piece in _received(pieces, image_id):
                file.write(piece)
                digest.update(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
            part.rename(folder / name)
    finally:
        part.unlink(missing_ok=True)
    return ArchivedImage(file=name, image_id=image_id, size_bytes=size, sha256=digest.hexdigest())


def _received(pieces: Iterator[bytes], image_id: str) -> Iterator[bytes]:
    try:
        yield from pieces
    except requests.RequestException as error:
        raise ImageError(f"saving image {image_id}: the engine broke off: {error}") from error


def _load(api: docker.APIClient, image: ArchivedImage, folder: Path) -> None:
    file = folder / image.file
    problem = ""
    with _explained(file), file.open("rb") as archive:
        found = hashlib.file_digest(archive, "sha256").hexdigest()
        if found != image.sha256:
            raise ImageError(
                f"{file}: has the sha256 {found}, and {INDEX} says {image.sha256}: "
                "it is damaged or cut off; copy it again"
            )
        archive.seek(0)
        with explained(f"loading {file}"):
            # The engine reports a failed load inside a successful answer.
            for line in api.load_image(archive):  # type: ignore[no-untyped-call]
                problem = line.get("error") or problem
    if problem:
        raise ImageError(f"{file}: could not be loaded: {problem.strip()}")
    if not _has(api, image.image_id):
        raise ImageError(
            f"{file}: was loaded, and there is no image {image.image_id}: either {INDEX} is of "
            "other archives, or this engine keeps images in another way than the one that saved "
            "them (its containerd image store is on, or was); use engines that are set alike"
        )


def _write_index(folder: Path, images: Mapping[str, ArchivedImage]) -> None:
    index = ArchiveIndex(images=dict(sorted(images.items())))
    part = folder / f".{INDEX}.{os.getpid()}.part"
    text = json.dumps(index.model_dump(mode="json", by_alias=True), indent=2)
    try:
        with part.open("w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(folder / INDEX)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Errors of the connection are OSErrors too, and have been told apart before.
        message = f"{path}: {error.strerror or error}"
        if error.errno == errno.ENOSPC:
            message += "; free some space there, and go on with the same command"
        raise ImageError(message) from error
