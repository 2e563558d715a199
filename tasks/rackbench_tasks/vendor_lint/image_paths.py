"""Paths that a Dockerfile makes, and the words of its instructions."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator

from rackbench_tasks.dockerfile import Dockerfile, Instruction
from rackbench_tasks.vendor_lint.commands import commands

_MAKERS = frozenset({"mkdir", "chown", "chmod", "cp", "mv", "ln", "touch", "install", "rsync"})


def script_of(instruction: Instruction) -> str:
    """What a RUN hands to the shell, its heredocs among it."""
    words = json_words(instruction.value)
    text = words[-1] if words else instruction.value
    return "\n".join([text, *(heredoc.content for heredoc in instruction.heredocs)])


def json_words(value: str) -> list[str] | None:
    """The words of an instruction in its JSON form; None in the other form."""
    if not value.startswith("["):
        return None
    try:
        words = json.loads(value)
    except ValueError:
        return None
    return [str(word) for word in words] if isinstance(words, list) else None


def copies(dockerfile: Dockerfile) -> Iterator[tuple[Instruction, list[str], str]]:
    """COPY and ADD with their sources and their absolute target, of every stage."""
    for instruction, workdir in _with_workdir(dockerfile):
        if instruction.name in ("COPY", "ADD"):
            words = json_words(instruction.value) or instruction.words
            if len(words) > 1:
                yield instruction, words[:-1], _absolute(workdir, words[-1])


def made_paths(dockerfile: Dockerfile) -> Iterator[tuple[Instruction, str]]:
    """Absolute paths that instructions make or change."""
    for instruction, _, target in copies(dockerfile):
        yield instruction, target
    for instruction, workdir in _with_workdir(dockerfile):
        words: list[str] = []
        if instruction.name == "WORKDIR":
            words = [instruction.value.strip("\"'")]
        elif instruction.name == "VOLUME":
            words = json_words(instruction.value) or instruction.words
        elif instruction.name == "RUN":
            words = list(_changed(script_of(instruction)))
        for word in words:
            yield instruction, _absolute(workdir, word)


def _changed(script: str) -> Iterator[str]:
    """Words of commands that make or change files; among them what is no path."""
    for words in commands(script):
        if words[0].rpartition("/")[2] in _MAKERS:
            yield from (word for word in words[1:] if not word.startswith("-"))


def _with_workdir(dockerfile: Dockerfile) -> Iterator[tuple[Instruction, str]]:
    workdir = "/"
    for instruction in dockerfile.instructions:
        if instruction.name == "FROM":
            workdir = "/"
        yield instruction, workdir
        if instruction.name == "WORKDIR":
            workdir = _absolute(workdir, instruction.value.strip("\"'"))


def _absolute(workdir: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(workdir, path))
