"""The recipe of an image: a Dockerfile, with its images called as they are here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rackbench_tasks import Build
from rackbench_tasks.dockerfile import Dockerfile, read_dockerfile, references, renamed

_BUILDKIT_FLAGS = {
    "RUN": {"mount", "network", "security"},
    "COPY": {"link", "chmod", "parents", "exclude"},
    "ADD": {"link", "chmod", "checksum", "keep-git-dir", "unpack", "exclude"},
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an image is made, and of which others."""

    build: Build
    dockerfile: Dockerfile
    written: str
    """The Dockerfile's text as its task has it."""

    @property
    def images(self) -> tuple[str, ...]:
        """Names of the images that it is made from, variables filled in, each once."""
        found = references(self.dockerfile, self.build.args)
        return tuple(dict.fromkeys(image.name for image in found))

    @property
    def pullable(self) -> tuple[str, ...]:
        """Those whose name and platform are certain."""
        found = references(self.dockerfile, self.build.args)
        return tuple(
            dict.fromkeys(
                image.name
                for image in found
                if re.fullmatch(r"[\w][\w./:@-]*", image.name)
                and image.instruction.flag("platform") is None
            )
        )

    @property
    def has_heredocs(self) -> bool:
        """Whether lines of its own belong to an instruction."""
        return any(instruction.heredocs for instruction in self.dockerfile.instructions)

    @property
    def needs_buildkit(self) -> bool:
        """Whether it has flags that the engine's first builder does not know."""
        return any(
            key in _BUILDKIT_FLAGS.get(instruction.name, ())
            for instruction in self.dockerfile.instructions
            for key, _ in instruction.flags
        )

    def text(self, names: Mapping[str, str]) -> str:
        """What the engine is to read: images called by `names`, and no syntax line."""
        if not names and self.dockerfile.syntax is None:
            return self.written
        return renamed(self.dockerfile, names, self.build.args)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left out of it."""
        if self.dockerfile.syntax is None:
            return ()
        file = self.build.context / self.build.dockerfile
        note = (
            f"{file}: its syntax line is left out, since {self.dockerfile.syntax} would be "
            "pulled to read it; the engine's own reader is used"
        )
        return (note,)


def read_recipe(build: Build) -> Recipe:
    """Read a build's Dockerfile.

    Raises OSError.
    """
    text = (build.context / build.dockerfile).read_bytes().decode("utf-8-sig", errors="replace")
    return Recipe(build, read_dockerfile(text), text)
