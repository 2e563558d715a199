"""Dockerfiles as they are written: what images they name, and how those are renamed."""

from __future__ import annotations

import pytest
from docker.auth import INDEX_NAME

from rackbench.sandbox.heredocs import HeredocError, without_heredocs
from rackbench.sandbox.image_names import ImageMap, canonical, split_tag
from rackbench_tasks.dockerfile import read_dockerfile, references, renamed

ODD = r"""# syntax=docker/dockerfile:1.7
# escape=\
ARG V=3.12
arg BASE=python:${V}
from --platform=linux/amd64 ${BASE}@sha256:abc \
  # a comment in between

  AS First
RUN <<EOF
from pathlib import Path
FROM nothing
EOF
RUN python3 - <<'PY' > /x && echo "<<NOT" <<-TABS
FROM foo
PY
	FROM bar
	TABS
ADD https://example.org/x.tar /x
FROM first as second
COPY --chown=1:1 --from=First /a /b
COPY --from=0 /a /b
COPY --from=registry.example/astral-sh/uv:0.9 /uv /uv
RUN --mount=type=cache,target=/c --mount=type=bind,from=golang:1,target=/g go build
RUN cat <<END
  FROM scratch is here
FROM scratch
COPY --from=second / /
"""


def names(text: str, **args: str) -> list[str]:
    return [image.name for image in references(read_dockerfile(text), args)]


def test_images_are_named_and_stages_are_not() -> None:
    assert names(ODD) == ["python:3.12@sha256:abc", "registry.example/astral-sh/uv:0.9", "golang:1"]
    assert names(ODD, V="3.13", BASE="debian")[0] == "debian@sha256:abc"


def test_renamed_keeps_every_line_in_its_place() -> None:
    new = renamed(read_dockerfile(ODD), {"python:3.12@sha256:abc": "a:1", "golang:1": "b:2"}, {})
    before, after = ODD.split("\n"), new.split("\n")
    assert len(before) == len(after)
    changed = [line for old, line in zip(before, after, strict=True) if old != line]
    assert changed == [
        "# escape=\\",
        "#",
        "from --platform=linux/amd64 a:1 \\",
        "RUN --mount=type=cache,target=/c --mount=type=bind,from=b:2,target=/g go build",
    ]
    assert names(new) == ["a:1", "registry.example/astral-sh/uv:0.9", "b:2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ufeffFROM a\r\nFROM b\r\n", ["a", "b"]),
        ("FROM scratch\n", []),
        ("# escape=`\nFROM a `\n  AS x\nFROM X\n", ["a"]),
        ("ARG T\nFROM a:${T:-1}${U:+no}\n", ["a:1"]),
        ('ARG T="1"\nFROM "a:$T"\n', ["a:1"]),
        ("FROM a AS b\nARG T=2\nFROM c:$T\n", ["a", "c:$T"]),  # an ARG of a stage is not global
        ("FROM a AS b\nCOPY --from=b /x /y\nCOPY --from=c:1 /x /y\n", ["a", "c:1"]),
        ("", []),
        ("FROM\n", []),
        ("FROM a \\", ["a"]),
    ],
)
def test_oddities(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_heredocs_belong_to_their_instruction() -> None:
    run, python = [one for one in read_dockerfile(ODD).instructions if one.heredocs]
    assert [(doc.name, doc.content, doc.expands) for doc in python.heredocs] == [
        ("PY", "FROM foo\n", False),
        ("TABS", "FROM bar\n", True),
    ]
    assert run.heredocs[0].content == "from pathlib import Path\nFROM nothing\n"


def test_heredocs_that_copy_need_values_that_are_known() -> None:
    with pytest.raises(HeredocError, match="variable WHO"):
        without_heredocs("FROM a\nCOPY <<EOF /x\n$WHO\nEOF\n", {})
    reworded = without_heredocs("FROM a\nARG WHO=x\nCOPY <<EOF /x\n$WHO\nEOF\n", {"WHO": "me"})
    assert list(reworded.files.values()) == ["me\n"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("python", f"{INDEX_NAME}/library/python:latest"),
        ("python:3.12@sha256:ab", "library/python@sha256:ab"),
        ("acme/x", f"index.{INDEX_NAME}/acme/x:latest"),
    ],
)
def test_names_of_one_image_are_the_same(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)
    assert ImageMap({one: "here"}).get(other) == "here"


def test_a_port_is_no_tag() -> None:
    assert split_tag("registry:5000/a") == ("registry:5000/a", "")
    assert split_tag("registry:5000/a:1") == ("registry:5000/a", "1")
    assert canonical("a:1@sha256:ab") != canonical("a:1@sha256:cd")
