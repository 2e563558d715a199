"""Dockerfiles: what a repository's own say, and the lines that a task adds."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rackbench.errors import UsageError

ARCHIVE = "repository.tar.gz"
WHEELS = "wheels"
_WHEELS_THERE = "/tmp/wheels"  # noqa: S108  # in an image that is being built
_PIP_OPTIONS = (
    "--no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check "
    "--root-user-action=ignore --break-system-packages"
)
_GIT = (
    "RUN command -v git >/dev/null || "
    "(apt-get update && apt-get install -y --no-install-recommends git && "
    "rm -rf /var/lib/apt/lists/*)"
)


@dataclass(frozen=True, slots=True)
class DevContainer:
    """What a devcontainer.json asks for."""

    image: str | None
    dockerfile: str | None
    """Path in the repository."""
    context: str
    """Folder in the repository from which the Dockerfile copies."""
    commands: tuple[str, ...]
    """To be run once in the work tree."""
    left_out: tuple[str, ...]
    """Keys that were there and have no place in a Dockerfile."""


def from_base(base: str, *, has_git: bool) -> list[str]:
    """The beginning of a task's Dockerfile on an image by its name."""
    lines = [f"FROM {base}", "USER root"]
    return lines if has_git else [*lines, _GIT]


def on_top_of(dockerfile: str, *, has_git: bool) -> list[str]:
    """The beginning of a task's Dockerfile on a repository's own."""
    lines = [dockerfile.rstrip(), "", "# Added for the task.", "USER root"]
    return lines if has_git else [*lines, _GIT]


def with_tree(workdir: str) -> list[str]:
    """Put the state before the fix into the image."""
    return [
        "# The state before the fix, in a repository of one commit.",
        f"ADD {ARCHIVE} {workdir}/",
        f"WORKDIR {workdir}",
    ]


def with_wheels(wheels: Sequence[str], *, without: Sequence[str]) -> list[str]:
    """Install wheels that lie beside the Dockerfile.

    `without` names distributions and modules whose copies in the image are removed: a later
    release of the project under test would hold the answer.
    """
    pip = next(name for name in wheels if name.startswith("pip-"))
    copies = " ".join(
        f"/usr/lib/python3/dist-packages/{form}"
        for name in without
        for form in (name, f"{name}.py", f"{name}-*")
    )
    return [
        "# Chosen when the task was made: building needs no network, and gives the same again.",
        f"COPY {WHEELS}/ {_WHEELS_THERE}/",
        *([f"RUN rm -rf {copies}"] if copies else []),
        (
            f"RUN PYTHONDONTWRITEBYTECODE=1 python3 {_WHEELS_THERE}/{pip}/pip install --quiet "
            f"{_PIP_OPTIONS} {_WHEELS_THERE}/*.whl && rm -rf {_WHEELS_THERE}"
        ),
    ]


def with_project(version: str) -> list[str]:
    """Install the project under test in place, from its work tree."""
    variables = f"PYTHONDONTWRITEBYTECODE=1 SETUPTOOLS_SCM_PRETEND_VERSION={version}"
    install = f"python3 -m pip install --quiet --no-build-isolation {_PIP_OPTIONS} --editable ."
    return [f"RUN {variables} {install}"]


def with_command(command: str) -> list[str]:
    """Run a command in the work tree."""
    return [f"RUN {' && '.join(line for line in command.splitlines() if line.strip())}"]


def finished(user: str, workdir: str) -> list[str]:
    """Give the work tree to the user of the image, where that is not root."""
    if user in ("", "root", "0"):
        return []
    return [f"RUN chown -R {user} {workdir}", f"USER {user}"]


def read_devcontainer(text: str, folder: str) -> DevContainer:
    """Read a devcontainer.json, which may have comments; `folder` is its own in the repository.

    Raises UsageError where it names neither an image nor a Dockerfile.
    """
    try:
        raw: dict[str, Any] = json.loads(_without_comments(text))
    except json.JSONDecodeError as error:
        raise UsageError(f"{folder}/devcontainer.json cannot be read: {error}") from error
    build = raw.get("build") or {}
    dockerfile = build.get("dockerfile") or raw.get("dockerFile")
    image = raw.get("image")
    if not image and not dockerfile:
        raise UsageError(
            f"{folder}/devcontainer.json names neither an image nor a Dockerfile; use --base IMAGE"
        )
    keys = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
    commands = [_command(raw[key]) for key in keys if raw.get(key)]
    return DevContainer(
        image=None if dockerfile else str(image),
        dockerfile=posixpath.normpath(f"{folder}/{dockerfile}") if dockerfile else None,
        context=posixpath.normpath(f"{folder}/{build.get('context', '.')}"),
        commands=tuple(command for command in commands if command),
        left_out=tuple(sorted({"features", "dockerComposeFile", "mounts"} & set(raw))),
    )


def _command(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(str, value))
    return " && ".join(_command(part) for part in value.values()) if isinstance(value, dict) else ""


def _without_comments(text: str) -> str:
    """JSON of a file that may have comments and commas before closing brackets."""
    strings_or_comments = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
    bare = strings_or_comments.sub(lambda found: found[1] or "", text)
    commas = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
    return commas.sub(lambda found: found[1] or "", bare)
