"""Shell commands of a script, and what they install."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

_BETWEEN = re.compile(r"&&|\|\||[;|\n]|(?<!&)&(?!&)")
_BEFORE = frozenset({"sudo", "env", "exec", "nice", "time", "then", "do", "else", "if", "!", "("})
_ASSIGNMENT = re.compile(r"\w+=.*")
_PIP_WITH_VALUE = frozenset(
    {"-i", "-t", "-f", "-c", "--index-url", "--extra-index-url", "--target", "--find-links"}
    | {"--constraint", "--prefix", "--root", "--python", "--platform", "--only-binary"}
    | {"--no-binary", "--timeout", "--trusted-host", "--cache-dir", "--with", "-p"}
)
_NODE_PROGRAMS = frozenset({"npm", "pnpm", "yarn"})


class Pin(StrEnum):
    """Whether what is installed has one version."""

    EXACT = "exact"
    NONE = "none"
    FILE = "file"
    """A list of requirements, which has to be read."""


@dataclass(frozen=True, slots=True)
class Install:
    """A package, or a list of them, that a command installs."""

    program: str
    package: str
    pin: Pin


def commands(script: str) -> Iterator[list[str]]:
    """The simple commands of a script, as words, roughly."""
    for piece in _BETWEEN.split(script.replace("\\\n", " ")):
        try:
            words = shlex.split(piece, comments=True)
        except ValueError:
            words = piece.split()
        while words and (words[0] in _BEFORE or _ASSIGNMENT.fullmatch(words[0])):
            words = words[1:]
        if words:
            yield [words[0].lstrip("("), *words[1:]]


def installs(words: list[str]) -> Iterator[Install]:
    """What one command installs."""
    program = words[0].rpartition("/")[2]
    if program in ("python", "python3") and words[1:3] == ["-m", "pip"]:
        program, words = "pip", words[2:]
    if program == "uv" and len(words) > 1 and words[1] in ("pip", "tool"):
        program, words = "pip", words[1:]
    if re.fullmatch(r"pip[\d.]*|pipx", program):
        yield from _pip(words)
    elif program in ("apt-get", "apt", "aptitude") and "install" in words:
        for package in _plain(words[words.index("install") + 1 :], frozenset({"-t", "-o", "-c"})):
            yield Install("apt", package, Pin.EXACT if "=" in package else Pin.NONE)
    elif program in _NODE_PROGRAMS:
        yield from _node(words)
    elif program in ("gem", "cargo", "go") and "install" in words:
        yield from _other(program, words)


def _pip(words: list[str]) -> Iterator[Install]:
    if "install" not in words:
        return
    rest = words[words.index("install") + 1 :]
    lists = [b for a, b in pairwise(rest) if a in ("-r", "--requirement")]
    lists += [word[2:] for word in rest if re.fullmatch(r"-r.+", word)]
    for path in lists:
        yield Install("pip", path, Pin.FILE)
    for package in _plain(rest, _PIP_WITH_VALUE | {"-r", "--requirement", "-e", "--editable"}):
        yield Install("pip", package, requirement_pin(package))


def requirement_pin(requirement: str) -> Pin:
    """Whether a requirement of Python's package installer has one version."""
    is_local = requirement.startswith((".", "/", "git+", "$")) or requirement.endswith(".whl")
    exact = re.search(r"===?\s*[^*\s,]+(\s*;.*)?$", requirement) or " @ " in requirement
    return Pin.EXACT if is_local or exact else Pin.NONE


def _node(words: list[str]) -> Iterator[Install]:
    verbs = {"install", "i", "add"}
    start = next((number for number, word in enumerate(words) if word in verbs), None)
    if start is None:
        return
    for package in _plain(words[start + 1 :], frozenset({"--prefix", "--registry"})):
        if package.startswith((".", "/", "$")):
            continue
        version = package[1:].partition("@")[2]
        exact = re.fullmatch(r"v?\d+\.\d+\.\d+\S*|\$.*", version) is not None
        yield Install(words[0], package, Pin.EXACT if exact else Pin.NONE)


def _other(program: str, words: list[str]) -> Iterator[Install]:
    rest = words[words.index("install") + 1 :]
    has_version = any(
        word in ("-v", "--version", "--vers") or word.startswith("--version=") for word in rest
    )
    if program == "cargo" and ({"--path", "--git"} & set(rest)):
        return
    with_value = frozenset({"-v", "--version", "--vers", "--root", "--features", "-i", "-n"})
    for package in _plain(rest, with_value):
        version = re.split(r"[@:]", package, maxsplit=1)[1:]
        exact = bool(version) and version[0] not in ("latest", "")
        if package.startswith((".", "/")):
            continue
        pinned = exact or (program != "go" and has_version)
        yield Install(program, package, Pin.EXACT if pinned else Pin.NONE)


def _plain(words: list[str], with_value: frozenset[str] | set[str]) -> Iterator[str]:
    """Words that are neither options nor values of such, up to a redirection."""
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif re.match(r"\d?[<>]", word):
            return
        elif word.startswith("-"):
            is_value = word in with_value
        elif word != "\\":
            yield word.rstrip(")")
