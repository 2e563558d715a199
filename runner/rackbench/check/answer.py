"""What would give the task away: the reference, what it makes, and what the tests expect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rackbench.check.layers import digest_of, lines_in
from rackbench_tasks import Task

_LINE_BYTES = 12
_LETTERS = re.compile(rb"\w")
_LINE_LETTERS = 6
_COMMON = (b"#!", b"set -", b"import ", b"from ", b"export ")
_CONTENT_BYTES = 12
_FILE_BYTES = 2_000_000
_TELLING = re.compile(r"expect|golden|answer|solution|truth|oracle|secret", re.IGNORECASE)
CODE = (".py", ".sh", ".js", ".ts", ".rb", ".go", ".rs", ".c", ".cpp", ".java", ".pl")
_OF_OTHERS = ("site-packages/", "dist-packages/", "node_modules/", "/.venv/", "/venv/")


class Kind(StrEnum):
    """What an answer is."""

    PRODUCED = "a file as the reference leaves it"
    SOLUTION = "a file of the reference"
    VERDICT = "the verifier's script"
    EXPECTED = "what the tests expect"
    TEST = "code of the tests"
    DATA = "data of the tests"


@dataclass(frozen=True, slots=True)
class Answer:
    """One content that an agent is not meant to find."""

    kind: Kind
    name: str
    """Its path in the sandbox, or in the task's folder."""
    digest: str
    lines: frozenset[bytes]
    """Stripped, and long enough to be told from others."""


def answers_of(task: Task, produced: Mapping[str, bytes]) -> list[Answer]:
    """Everything to look for, from the task's own files and from what the reference changed."""
    answers = []
    for stage in task.stages:
        if stage.solution:
            folder = stage.solution.folder
            parts = [*(_files(folder) if folder else ()), *stage.solution.files.items()]
            answers += [_answer(Kind.SOLUTION, f"solution/{name}", text) for name, text in parts]
        scripts = {Path(word).name for word in stage.verifier.command}
        for name, text in _tests(stage.verifier.tests, stage.verifier.files):
            answers.append(_answer(_kind_of_test(name, scripts), f"tests/{name}", text))
    answers += [
        _answer(Kind.PRODUCED, path, text)
        for path, text in produced.items()
        if not any(part in path for part in _OF_OTHERS)
    ]
    return list(dict.fromkeys(filter(None, answers)))


def lines_of(content: bytes) -> frozenset[bytes]:
    """The lines of a text that are worth looking for."""
    every = frozenset(map(bytes.strip, content.split(b"\n")))
    return lines_in(content, frozenset(line for line in every if _is_telling(line)))


def _is_telling(line: bytes) -> bool:
    if line.startswith(_COMMON):
        return False
    return len(line) >= _LINE_BYTES and len(_LETTERS.findall(line)) >= _LINE_LETTERS


def _answer(kind: Kind, name: str, content: bytes) -> Answer | None:
    if len(content.strip()) < _CONTENT_BYTES:
        return None
    return Answer(kind, name, digest_of(content), lines_of(content))


def _kind_of_test(name: str, scripts: Iterable[str]) -> Kind:
    base = name.rpartition("/")[2]
    if base in scripts:
        return Kind.VERDICT
    if base.endswith(CODE):
        return Kind.TEST
    return Kind.EXPECTED if _TELLING.search(name) else Kind.DATA


def _tests(folders: Iterable[Path], files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for folder in folders:
        yield from _files(folder)
    yield from files.items()


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size <= _FILE_BYTES:
            yield str(path.relative_to(folder)), path.read_bytes()
