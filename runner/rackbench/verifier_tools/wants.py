"""What the verifier of a task would fetch, and for which Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from rackbench.verifier_tools.script import Request, requirement_lines, wishes_of
from rackbench_tasks import Task, VerifierPhase

_LIMIT_BYTES = 1_000_000
_PYTHON_IMAGE = re.compile(r"\bpython[:-]3[.-](\d+)")
# What the distributions of common base images call python3.
_DISTRIBUTIONS = {
    r"\bubuntu[:-]24[.-]04|\bnoble\b": "3.12",
    r"\bubuntu[:-]22[.-]04|\bjammy\b": "3.10",
    r"\bdebian:(?:bookworm|12)|-bookworm\b": "3.11",
    r"\bdebian:(?:trixie|13)|-trixie\b": "3.13",
}


@dataclass(frozen=True, slots=True)
class Wants:
    """Of one task."""

    task: str
    requests: tuple[Request, ...]
    pythons: frozenset[str]
    """Versions that its scripts name."""
    image_python: str | None
    """Version that its image seems to have."""
    system_packages: tuple[str, ...]
    others: tuple[str, ...]


def wants_of(task: Task) -> Wants:
    """What the scripts of all stages would fetch."""
    requests: dict[Request, None] = {}
    pythons: set[str] = set()
    system_packages: dict[str, None] = {}
    others: dict[str, None] = {}
    for stage in task.stages:
        for text in _scripts(stage.verifier):
            wishes = wishes_of(text, partial(_requirements, stage.verifier))
            requests |= dict.fromkeys(wishes.requests)
            pythons |= wishes.pythons
            system_packages |= dict.fromkeys(wishes.system_packages)
            others |= dict.fromkeys(wishes.others)
    return Wants(
        task=task.id,
        requests=tuple(requests),
        pythons=frozenset(pythons),
        image_python=image_python(task),
        system_packages=tuple(system_packages),
        others=tuple(others),
    )


def image_python(task: Task) -> str | None:
    """The Python that a task's image seems to have, by the names of the images it starts from."""
    names = [task.environment.docker_image or ""]
    build = task.environment.build
    places = [build.context / build.dockerfile] if build else []
    places += [task.folder / "environment" / "Dockerfile", task.folder / "Dockerfile"]
    for place in places:
        if place.is_file():
            text = place.read_text(encoding="utf-8", errors="replace")
            names += re.findall(r"^\s*FROM\s+(.*)$", text, re.MULTILINE | re.IGNORECASE)
            break
    for name in reversed(names):
        if found := _PYTHON_IMAGE.search(name):
            return f"3.{found.group(1)}"
        for pattern, version in _DISTRIBUTIONS.items():
            if re.search(pattern, name):
                return version
    return None


def _scripts(verifier: VerifierPhase) -> Iterator[str]:
    for name, content in verifier.files.items():
        if name.endswith(".sh"):
            yield content.decode(errors="replace")
    for folder in verifier.tests:
        for path in sorted(folder.rglob("*.sh")):
            if path.is_file() and path.stat().st_size <= _LIMIT_BYTES:
                yield path.read_text(encoding="utf-8", errors="replace")


def _requirements(verifier: VerifierPhase, name: str) -> tuple[str, ...]:
    """The lines of the file that a script means: the name alone counts, its folder may be a variable."""
    bare = PurePosixPath(name).name
    for inside, content in verifier.files.items():
        if PurePosixPath(inside).name == bare:
            return requirement_lines(content.decode(errors="replace"))
    for folder in verifier.tests:
        for path in sorted(folder.rglob(bare) if bare and "$" not in bare else ()):
            if path.is_file():
                return requirement_lines(Path(path).read_text(errors="replace"))
    return ()
