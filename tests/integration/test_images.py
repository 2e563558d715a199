"""Images made of recipes, on a real Docker daemon: what is mapped, built, and said when it fails."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest
from docker.auth import INDEX_NAME

from rackbench.sandbox.images import Image, ImageError, Images
from rackbench_tasks import Build

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

PINNED = "nowhere.invalid/python:3.12@sha256:" + "a" * 64
MARK = "rackbench.test.images"


@pytest.fixture
def context(tmp_path: Path, docker_api: docker.APIClient) -> Iterator[Path]:
    """A build context whose content is unique; its images are removed at the end."""
    folder = tmp_path / "environment"
    folder.mkdir()
    (folder / "mark").write_text(uuid4().hex)
    before = {row["Id"] for row in docker_api.images(filters={"label": MARK})}
    yield folder
    for row in docker_api.images(filters={"label": MARK}):
        if row["Id"] not in before:
            docker_api.remove_image(row["Id"], force=True)


def dockerfile(context: Path, text: str, **more: object) -> Build:
    """A recipe of one stage more, so that its image can be found again."""
    (context / "Dockerfile").write_text(f"{text}\nLABEL {MARK}=1\n")
    return Build(context, **more)  # type: ignore[arg-type]


async def made(images: Images, build: Build | str) -> Image:
    return await images.ensure(build, timeout_seconds=120, on_build=lambda _: None)


def content(api: docker.APIClient, image: Image, folder: str) -> dict[str, bytes]:
    """Files below a folder of an image."""
    container = api.create_container(image.id, command=["true"])["Id"]
    try:
        pieces, _ = api.get_archive(container, folder)
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
            return {
                entry.name.partition("/")[2]: archive.extractfile(entry).read()  # type: ignore[union-attr]
                for entry in archive
                if entry.isreg()
            }
    finally:
        api.remove_container(container, force=True)


@pytest.fixture
def images(docker_api: docker.APIClient, base_image: str) -> Images:
    """With a map of the pinned name to the id of the base image."""
    base_id = docker_api.inspect_image(base_image)["Id"]
    return Images(docker_api, builds_at_once=1, image_map={PINNED: base_id})


@pytest.fixture(params=["buildkit", "first"])
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both builders of the engine: without a client for BuildKit the first has to do."""
    if request.param == "first":
        monkeypatch.setenv("PATH", "/nowhere")
    return str(request.param)


@pytest.mark.usefixtures("builder")
async def test_a_pinned_base_is_built_upon_by_its_id(
    images: Images, context: Path, docker_api: docker.APIClient, base_image: str
) -> None:
    base = docker_api.inspect_image(base_image)
    build = dockerfile(
        context,
        f"# syntax=docker/dockerfile:1\nARG V=3.12\nfrom nowhere.invalid/python:$V@sha256:{'a' * 64} \\\n"
        f"  AS first\nFROM scratch\nCOPY --from=first /etc/debian_version /all/first\n"
        f"COPY --from={PINNED} /etc/debian_version /all/version\nCOPY . /all/",
    )
    written = (context / "Dockerfile").read_bytes()
    image = await made(images, build)
    assert image.mapped == {PINNED: base["Id"]}
    assert "syntax line is left out" in image.notes[0]
    found = content(docker_api, image, "/all")
    assert set(found) == {"Dockerfile", "mark", "first", "version"}  # nothing of ours beside them
    assert found["Dockerfile"] == written == (context / "Dockerfile").read_bytes()
    assert not (context / ".dockerignore").exists()


async def test_a_pinned_name_is_started_by_its_id(images: Images, base_image: str) -> None:
    image = await made(images, PINNED)
    plain = await made(images, base_image)
    assert (image.id, image.mapped, plain.mapped) == (plain.id, {PINNED: plain.id}, {})


async def test_the_tag_of_the_name_and_the_host_of_the_registry_do_not_matter(
    docker_api: docker.APIClient, base_image: str
) -> None:
    names = {
        f"{INDEX_NAME}/library/python:3.12": base_image,
        "python:3.13@sha256:" + "b" * 64: base_image,
    }
    images = Images(docker_api, builds_at_once=1, image_map=names)
    assert (await made(images, "python:3.12")).mapped
    assert (await made(images, "python@sha256:" + "b" * 64)).mapped
    assert images.find("python:3.11-rackbench-absent") is None


async def test_an_image_that_is_mapped_and_not_there_is_told(docker_api: docker.APIClient) -> None:
    absent = "sha256:" + "c" * 64
    images = Images(docker_api, builds_at_once=1, image_map={PINNED: absent})
    with pytest.raises(ImageError, match=rf"{PINNED} is {absent} by the image map.*images load"):
        await made(images, PINNED)


async def test_built_once_and_found_again_by_its_content(images: Images, context: Path) -> None:
    build = dockerfile(context, f"FROM {PINNED}\nCOPY mark /mark")
    said: list[str] = []
    for _ in range(2):
        await images.ensure(build, timeout_seconds=120, on_build=said.append)
    assert said == [images.tag_of(build)]
    (context / "mark").write_text("another")
    await images.ensure(build, timeout_seconds=120, on_build=said.append)
    assert len(set(said)) == 2


@pytest.mark.usefixtures("builder")
async def test_what_the_ignore_list_names_is_not_copied(
    images: Images, context: Path, docker_api: docker.APIClient
) -> None:
    (context / ".dockerignore").write_text("# secrets\n*.key\nbig/\n!big/kept\n")
    (context / "a.key").write_text("secret")
    (context / "big").mkdir()
    (context / "big" / "kept").write_text("kept")
    (context / "big" / "left").write_text("left")
    heredoc = (
        "COPY <<EOF /all/more\nmore\nEOF"  # which the engine's first builder may have to build
    )
    for recipe in (f"FROM {PINNED}\n", "FROM scratch\nCMD true\n", f"FROM {PINNED}\n{heredoc}\n"):
        build = dockerfile(context, f"{recipe}COPY . /all/")
        found = content(docker_api, await made(images, build), "/all")
        assert {"big/kept", "mark"} <= set(found)
        assert not {"a.key", "big/left"} & set(found)
        assert not [name for name in found if name == ".rackbench.Dockerfile"]


@pytest.mark.usefixtures("builder")
async def test_heredocs_are_built(
    images: Images, context: Path, docker_api: docker.APIClient
) -> None:
    build = dockerfile(
        context,
        f"FROM {PINNED}\nENV WHO=world\nARG GREETING=hello\nWORKDIR /all\n"
        'RUN <<EOF\nset -e\necho "one $WHO" > one\nFROM=pathlib\nEOF\n'
        "RUN python3 - <<'PY' > two && cat <<-LAST >> two\nfrom pathlib import Path\nprint('two')\nPY\n"
        "\t$GREETING\n\tLAST\n"
        "RUN <<EOF\n#!/usr/bin/env python3\nopen('three', 'w').write('three')\nEOF\n"
        "COPY <<EOF <<'RAW' /all/\n$GREETING ${WHO} \\$PATH\nEOF\n$GREETING\nRAW\n",
    )
    found = content(docker_api, await made(images, build), "/all")
    assert found == {
        "one": b"one world\n",
        "two": b"two\nhello\n",
        "three": b"three",
        "EOF": b"hello world $PATH\n",
        "RAW": b"$GREETING\n",
    }


async def test_mounts_are_built_by_the_client_that_knows_them(
    images: Images, context: Path, docker_api: docker.APIClient
) -> None:
    build = dockerfile(
        context,
        f"# syntax=nowhere.invalid/frontend\nFROM {PINNED}\n"
        f"RUN --mount=type=bind,target=/ctx --mount=type=bind,from={PINNED},target=/other "
        "mkdir /all && cp /ctx/mark /other/etc/debian_version /all",
    )
    image = await made(images, build)
    assert set(content(docker_api, image, "/all")) == {"mark", "debian_version"}
    assert set(image.mapped) == {PINNED}


async def test_what_only_buildkit_reads_is_built(
    images: Images, context: Path, docker_api: docker.APIClient
) -> None:
    (context / "other").write_text("other")
    build = dockerfile(context, f"FROM {PINNED}\nWORKDIR /all\nCOPY mark other .")
    assert set(content(docker_api, await made(images, build), "/all")) == {"mark", "other"}


@pytest.mark.usefixtures("builder")
async def test_a_failed_build_shows_its_last_lines(images: Images, context: Path) -> None:
    build = dockerfile(context, f"FROM {PINNED}\nRUN echo so far so good && exit 7")
    with pytest.raises(ImageError) as caught:
        await made(images, build)
    text = str(caught.value)
    assert f"{context}/Dockerfile with the context {context} failed" in text
    assert "so far so good" in text
    assert "7" in text


async def test_what_needs_buildkit_says_so_where_it_is_not(
    images: Images, context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    build = dockerfile(context, f"FROM {PINNED}\nRUN --mount=type=cache,target=/x true")
    with pytest.raises(ImageError, match=r"needs BuildKit.*install Docker's buildx plugin"):
        await made(images, build)


async def test_a_missing_base_is_named(images: Images, context: Path) -> None:
    build = dockerfile(context, "FROM nowhere.invalid/some/base:1")
    with pytest.raises(ImageError, match=r"nowhere.invalid/some/base:1 is not on this machine"):
        await made(images, build)


async def test_a_missing_dockerfile_is_named(images: Images, context: Path) -> None:
    with pytest.raises(ImageError, match=r"environment/Nothing: cannot be read"):
        await made(images, Build(context, "Nothing"))


@pytest.mark.usefixtures("builder")
async def test_a_build_that_takes_too_long_is_given_up(images: Images, context: Path) -> None:
    build = dockerfile(context, f"FROM {PINNED}\nRUN echo so far && sleep 20")
    with pytest.raises(ImageError, match=r"(?s)was not ready after 6 s.*so far"):
        await images.ensure(build, timeout_seconds=6, on_build=lambda _: None)


@pytest.mark.usefixtures("builder")
async def test_arguments_and_target_are_handed_over(
    images: Images, context: Path, docker_api: docker.APIClient
) -> None:
    build = dockerfile(
        context,
        f"ARG BASE=nowhere.invalid/none\nFROM $BASE AS wanted\nLABEL {MARK}=1\nARG WHAT\n"
        "RUN mkdir /all && echo $WHAT > /all/what\nFROM wanted\nRUN exit 1",
        args={"BASE": PINNED, "WHAT": "this"},
        target="wanted",
    )
    assert content(docker_api, await made(images, build), "/all") == {"what": b"this\n"}
