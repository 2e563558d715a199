"""Heredocs in other words, for an engine whose reader of Dockerfiles does not know them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rackbench_tasks.dockerfile import Heredoc, Instruction, read_dockerfile

FOLDER = ".rackbench-heredocs"
"""Of the build context, with the files that COPY is to find."""
_LINE_BYTES = 60_000  # the engine refuses longer lines
_ALONE = re.compile(r"\d*<<-?(['\"]?)\w[\w.-]*\1")
_VARIABLE = re.compile(r"\\([\\$])|\$(?:(\w+)|\{(\w+)\}|(?=\{))")
_ASSIGNED = re.compile(r"""(\w+)=("(?:\\.|[^"\\])*"|'[^']*'|\S*)""")


class HeredocError(ValueError):
    """A heredoc that cannot be said in other words."""


@dataclass(frozen=True, slots=True)
class Reworded:
    """A Dockerfile without heredocs."""

    text: str
    files: Mapping[str, str]
    """To be added to the build context."""


@dataclass(slots=True)
class _Stage:
    """What is set where a line is read."""

    shell: list[str] = field(default_factory=lambda: ["/bin/sh", "-c"])
    variables: dict[str, str] = field(default_factory=dict)


def without_heredocs(text: str, args: Mapping[str, str]) -> Reworded:
    """Say what a Dockerfile says, without heredocs.

    Raises HeredocError.
    """
    dockerfile = read_dockerfile(text)
    files: dict[str, str] = {}
    said: list[str] = []
    stage = _Stage()
    done = 0
    for instruction in dockerfile.instructions:
        if instruction.heredocs:
            said += dockerfile.lines[done : instruction.first]
            said.append(_line(instruction, stage, files))
            done = instruction.end
        elif instruction.name == "FROM":
            stage = _Stage()
        elif instruction.name == "SHELL":
            stage.shell = _shell(instruction)
        elif instruction.name in ("ENV", "ARG"):
            stage.variables |= dict(_assigned(instruction, args))
    said += dockerfile.lines[done:]
    return Reworded("\n".join(said), files)


def _line(instruction: Instruction, stage: _Stage, files: dict[str, str]) -> str:
    if instruction.name == "RUN":
        line = "RUN " + json.dumps([*stage.shell, _script(instruction)])
    else:
        line = _copied(instruction, stage, files)
    if len(line.encode()) > _LINE_BYTES:
        raise HeredocError(f"a heredoc of more than {_LINE_BYTES:,} bytes")
    return line


def _script(instruction: Instruction) -> str:
    """What the shell is to run: the heredoc itself, or the command that has it as a file."""
    first = instruction.heredocs[0]
    if not _ALONE.fullmatch(instruction.value):
        return instruction.value + "".join(
            f"\n{heredoc.content}{heredoc.name}" for heredoc in instruction.heredocs
        )
    if not first.content.startswith("#!"):
        return first.content
    return (
        f"script=$(mktemp) && cat >\"$script\" <<'{first.name}'\n{first.content}{first.name}\n"
        'chmod 755 "$script" && "$script" && rm "$script"'
    )


def _copied(instruction: Instruction, stage: _Stage, files: dict[str, str]) -> str:
    """COPY or ADD with a file of the context in the place of each heredoc."""
    heredocs = iter(instruction.heredocs)
    sources: list[str] = []
    for word in instruction.words:
        if _ALONE.fullmatch(word):
            heredoc = next(heredocs)
            path = f"{FOLDER}/{len(files) + 1}/{heredoc.name}"
            files[path] = _content(heredoc, stage.variables)
            sources.append(path)
        else:
            sources.append(word)
    flags = [f"--{key}={value}" if value else f"--{key}" for key, value in instruction.flags]
    return " ".join([instruction.name, *flags, *sources])


def _content(heredoc: Heredoc, variables: Mapping[str, str]) -> str:
    if not heredoc.expands:
        return heredoc.content

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        name = match[2] or match[3]
        if name is None or name not in variables:
            raise HeredocError(
                f"the heredoc {heredoc.name} with the variable {name or match[0]}, whose value "
                "is not in the Dockerfile"
            )
        return variables[name]

    return _VARIABLE.sub(value, heredoc.content)


def _shell(instruction: Instruction) -> list[str]:
    try:
        words = json.loads(instruction.value)
    except ValueError as error:
        raise HeredocError(f"SHELL {instruction.value}, which is no JSON") from error
    return [str(word) for word in words]


def _assigned(instruction: Instruction, args: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for match in _ASSIGNED.finditer(instruction.value):
        own = args.get(match[1]) if instruction.name == "ARG" else None
        yield match[1], own if own is not None else match[2].strip("\"'")
