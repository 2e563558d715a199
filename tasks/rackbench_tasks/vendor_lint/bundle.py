"""The folder under the lint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rackbench_tasks.dockerfile import Dockerfile, Instruction, read_dockerfile

_TEXT_BYTES = 4 * 1024**2
_COMMENT = re.compile(r"^\s*#")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A task's folder, read without trust."""

    folder: Path

    @property
    def slug(self) -> str:
        """The folder's own name."""
        return self.folder.name

    def text(self, path: str) -> str | None:
        """The text of a file; None where there is none, or it is no text of a sensible size."""
        file = self.folder / path
        if not file.is_file() or file.stat().st_size > _TEXT_BYTES:
            return None
        content = file.read_bytes()
        if b"\0" in content:
            return None
        return content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")

    def dockerfile(self, path: str) -> Dockerfile | None:
        """A Dockerfile, read."""
        text = self.text(path)
        return None if text is None else read_dockerfile(text)

    def files(self, below: str = ".") -> Iterator[str]:
        """Paths of files and links below a folder, in order."""
        for path in sorted((self.folder / below).rglob("*")):
            if path.is_symlink() or not path.is_dir():
                yield path.relative_to(self.folder).as_posix()


def at(path: str, instruction: Instruction) -> str:
    """Where an instruction stands."""
    return f"{path}:{instruction.first + 1}"


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a script that are neither blank nor comments, with their numbers."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not _COMMENT.match(line):
            yield number, line
