"""Images carried in files, on a real Docker daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread
import docker
import pytest

from rackbench.errors import PrerequisiteError
from rackbench.image_transfer import load_task_images, save_task_images
from rackbench.sandbox.image_archives import load_images, read_image_map, save_images
from rackbench.sandbox.images import ImageError, Images
from rackbench_tasks import Build, load_suite

pytestmark = pytest.mark.docker

ABSENT = "nowhere.invalid/absent@sha256:" + "a" * 64
MARK = "rackbench.test.archives"


@pytest.fixture
def names(docker_api: docker.APIClient, tmp_path: Path) -> Iterator[list[str]]:
    """Two names of one small image, and one of another; all gone at the end."""
    made = []
    for what in ("one", "other"):
        folder = tmp_path / what
        folder.mkdir()
        (folder / "mark").write_text(uuid4().hex)
        (folder / "Dockerfile").write_text(f"FROM scratch\nCOPY mark /\nLABEL {MARK}=1\nCMD true\n")
        name = f"rackbench-test/{uuid4().hex[:12]}:1"
        for line in docker_api.build(path=str(folder), tag=name, rm=True, decode=True):
            assert "error" not in line, line
        made.append(name)
    second = f"rackbench-test/{uuid4().hex[:12]}"
    docker_api.tag(made[0], second)
    yield [made[0], second, made[1]]
    for row in docker_api.images(filters={"label": MARK}):
        docker_api.remove_image(row["Id"], force=True)


def forget(api: docker.APIClient, *names: str) -> None:
    for name in names:
        api.remove_image(name, force=True)


def quiet(_: str) -> None:
    pass


def test_saved_once_and_loaded_by_id(
    docker_api: docker.APIClient, names: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "archives"
    ids = {name: docker_api.inspect_image(name)["Id"] for name in names}
    saved = save_images(docker_api, names, folder, progress=quiet)
    assert (saved.written, saved.problems) == (2, ())
    assert len(list(folder.glob("*.tar"))) == 2
    assert not list(folder.glob(".*"))

    forget(docker_api, *names)
    said: list[str] = []
    assert load_images(docker_api, folder, progress=said.append) == ids
    assert {name: docker_api.inspect_image(name)["Id"] for name in names} == ids
    assert len(said) == 2
    assert read_image_map(folder) == read_image_map(folder / "images.json") == ids

    said.clear()
    assert load_images(docker_api, folder, progress=said.append) == ids
    assert said == []  # all there


def test_goes_on_where_it_was_stopped(
    docker_api: docker.APIClient, names: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "archives"
    save_images(docker_api, names[:1], folder, progress=quiet)
    first = next(folder.glob("*.tar"))
    written = first.stat().st_mtime_ns
    (folder / f".{'0' * 64}.tar.1.part").write_bytes(b"of a killed process")
    saved = save_images(docker_api, names, folder, progress=quiet)
    assert saved.written == 1
    assert first.stat().st_mtime_ns == written
    assert set(read_image_map(folder)) == set(names)

    first.write_bytes(first.read_bytes()[:-1])  # cut off while it was copied
    assert save_images(docker_api, names, folder, progress=quiet).written == 1


def test_a_name_that_has_moved_is_saved_anew(
    docker_api: docker.APIClient, names: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "archives"
    save_images(docker_api, names[:1], folder, progress=quiet)
    repository, _, tag = names[0].partition(":")
    docker_api.tag(names[2], repository, tag)
    assert save_images(docker_api, names[:1], folder, progress=quiet).written == 1
    assert read_image_map(folder)[names[0]] == docker_api.inspect_image(names[2])["Id"]


def test_a_name_in_use_is_left_alone(
    docker_api: docker.APIClient, names: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "archives"
    save_images(docker_api, names[:1], folder, progress=quiet)
    repository, _, tag = names[0].partition(":")
    docker_api.tag(names[2], repository, tag)
    found = load_images(docker_api, folder, progress=quiet)
    assert docker_api.inspect_image(names[0])["Id"] != found[names[0]]


def test_an_image_that_cannot_be_had_does_not_stop_the_others(
    docker_api: docker.APIClient, names: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "archives"
    saved = save_images(docker_api, [ABSENT, names[0]], folder, progress=quiet)
    assert list(saved.images) == [names[0]]
    (problem,) = saved.problems
    assert problem.startswith(f"image {ABSENT} is not on this machine and could not be pulled: ")


@pytest.mark.parametrize("damage", ["changed", "gone", "other"])
def test_a_damaged_archive_is_refused(
    docker_api: docker.APIClient, names: list[str], tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "archives"
    save_images(docker_api, names[:1], folder, progress=quiet)
    forget(docker_api, *names[:2])
    archive = next(folder.glob("*.tar"))
    index = json.loads((folder / "images.json").read_text())
    if damage == "changed":
        archive.write_bytes(archive.read_bytes() + b"\0")
        expected = r"damaged or cut off; copy it again"
    elif damage == "gone":
        archive.unlink()
        expected = r"\.tar: No such file"
    else:
        index["images"][names[0]]["image_id"] = "sha256:" + "d" * 64
        (folder / "images.json").write_text(json.dumps(index))
        expected = r"was loaded, and there is no image sha256:ddd"
    with pytest.raises(ImageError, match=expected):
        load_images(docker_api, folder, progress=quiet)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "Invalid JSON"),
        ('{"schema": 2}', "schema"),
        ('{"schema": 1, "images": {"a": {"file": "../x"}}}', r"images.a.file"),
    ],
)
def test_an_index_that_makes_no_sense_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "images.json").write_text(text)
    with pytest.raises(ImageError, match=expected):
        read_image_map(tmp_path)


def test_a_map_may_be_written_by_hand(tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("python:3.12@sha256:abc: local/python:1\n")
    assert read_image_map(tmp_path / "map.yaml") == {"python:3.12@sha256:abc": "local/python:1"}
    (tmp_path / "map.yaml").write_text("- python\n")
    with pytest.raises(ImageError, match="expected a table"):
        read_image_map(tmp_path / "map.yaml")
    with pytest.raises(ImageError, match="images save"):
        read_image_map(tmp_path)


TASK = """\
schema_version = "1.4"
[agent]
timeout_sec = 5
[verifier]
timeout_sec = 5
environment_mode = "separate"
[verifier.environment]
docker_image = "{verifier}"
[environment]
cpus = 1
"""


def write_task(folder: Path, base: str, verifier: str) -> Path:
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(TASK.format(verifier=verifier))
    (folder / "instruction.md").write_text("Do it.\n")
    recipe = f"FROM {base}\nCOPY mark /mark2\nLABEL {MARK}=1\n"
    (folder / "environment" / "Dockerfile").write_text(recipe)
    (folder / "environment" / "mark").write_text(uuid4().hex)
    (folder / "tests" / "test.sh").write_text("#!/bin/sh\n")
    return folder


async def ensure(images: Images, build: Build) -> tuple[str, list[str]]:
    said: list[str] = []
    image = await images.ensure(build, timeout_seconds=60, on_build=said.append)
    return image.id, said


@pytest.mark.anyio
async def test_what_tasks_need_goes_along_with_the_images_built_of_it(
    docker_api: docker.APIClient, names: list[str], tmp_path: Path
) -> None:
    suite = write_task(tmp_path / "task", names[0], names[2])
    folder = tmp_path / "archives"
    saved = await anyio.to_thread.run_sync(
        lambda: save_task_images(suite, folder, built=True, progress=quiet)
    )
    assert saved.problems == ()
    (own,) = set(saved.images) - {names[0], names[2]}
    assert own.startswith("rackbench/task:")

    own_id = saved.images[own].image_id
    forget(docker_api, own_id, names[1], names[0], names[2])
    found = await anyio.to_thread.run_sync(lambda: load_task_images(folder, progress=quiet))
    forget(docker_api, names[0])  # the name alone: what is left is known by the map
    build = load_suite(suite, strict=True, host_env={}).tasks[0].environment.build
    assert build is not None
    images = Images(docker_api, builds_at_once=1, image_map=found)
    assert await ensure(images, build) == (own_id, [])  # nothing is built again


def test_what_cannot_be_had_is_told_of_a_suite(tmp_path: Path) -> None:
    suite = write_task(tmp_path / "task", "scratch", ABSENT)
    saved = save_task_images(suite, tmp_path / "archives", built=False, progress=quiet)
    assert ABSENT in saved.problems[0]
    with pytest.raises(PrerequisiteError, match="cannot be read"):
        load_task_images(tmp_path / "archives", progress=quiet)
