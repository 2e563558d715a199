"""From templates to a task's folder."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from rackbench.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
DEFAULT_BASE = "rackbench/base:1"
_ENDING = ".template"
_WITH_SHARED = "environment/Dockerfile-shared"
_PROGRAM = {"python": "/app/total.py", "shell": "/app/total.sh"}


class Verifier(StrEnum):
    """Where the tests run."""

    SEPARATE = "separate"
    """In a container of their own, with nothing of the agent's but the artifacts."""
    SHARED = "shared"
    """In the agent's container."""


class Language(StrEnum):
    """What the example is written in."""

    PYTHON = "python"
    SHELL = "shell"


class Network(StrEnum):
    """What the agent may reach."""

    NO_NETWORK = "no-network"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What a new task begins as."""

    name: str
    """The task's id; its last part names the folder."""
    to: Path = Path()
    verifier: Verifier = Verifier.SEPARATE
    base: str = DEFAULT_BASE
    language: Language = Language.PYTHON
    network: Network = Network.NO_NETWORK


def write_skeleton(skeleton: Skeleton) -> Path:
    """Write a task that passes every check; returns its folder.

    Raises UsageError where a name is unsafe or the folder is there already.
    """
    if not _NAME.fullmatch(skeleton.name):
        raise UsageError(
            f"{skeleton.name!r} is no name for a task: letters, digits, '.', '_', '-', and '/' "
            "between parts"
        )
    if not _IMAGE.fullmatch(skeleton.base):
        raise UsageError(f"{skeleton.base!r} is no name of an image")
    target = skeleton.to / skeleton.name.rpartition("/")[2]
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already, and nothing is overwritten")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as work:
        folder = Path(work) / target.name
        folder.mkdir()
        for name, text in _files(skeleton):
            _write(folder / name, text)
        shutil.move(folder, target)
    return target


def _files(skeleton: Skeleton) -> Iterator[tuple[str, str]]:
    top = resources.files("rackbench.new_task") / "skeleton"
    separate = skeleton.verifier is Verifier.SEPARATE
    artifacts = f'artifacts = ["{_PROGRAM[skeleton.language]}"]\n' if separate else ""
    words = {
        "name": skeleton.name,
        "base": skeleton.base,
        "language": skeleton.language,
        "verifier": skeleton.verifier,
        "network": skeleton.network,
        "artifacts": artifacts,
    }
    yield "task.toml", _filled(top / f"task.toml{_ENDING}", words)
    found = dict(_templates(top / skeleton.language, ""))
    shared_recipe = found.pop(_WITH_SHARED, None)
    if not separate:
        del found["tests/Dockerfile"]
        found["environment/Dockerfile"] = shared_recipe or found["environment/Dockerfile"]
    for name, template in found.items():
        yield name, _filled(template, words)


def _templates(folder: Traversable, below: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _templates(entry, f"{below}{entry.name}/")
        elif entry.name.endswith(_ENDING):
            yield below + entry.name.removesuffix(_ENDING), entry


def _filled(template: Traversable, words: dict[str, str]) -> str:
    return Template(template.read_text()).substitute(words)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if path.suffix == ".sh" else 0o644)
