"""A Dockerfile as its text has it: instructions, the images that it names, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_DIRECTIVE = re.compile(r"^\s*#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*$")
_DIRECTIVES = frozenset({"syntax", "escape", "check"})
_HEAD = re.compile(r"\s*(\S+)\s*(.*)", re.DOTALL)
_FLAG = re.compile(r"--([a-z][a-z.-]*)(?:=(\"[^\"]*\"|'[^']*'|\S*))?(?:\s+|$)", re.IGNORECASE)
_HEREDOC_OR_QUOTED = re.compile(
    r"""(?<!\S)\d*<<(?P<dash>-?)(?P<quote>['"]?)(?P<name>[A-Za-z_][\w.-]*)(?P=quote)(?![^\s;|&)>])"""
    r"""|"(?:\\.|[^"\\])*"|'[^']*'|.""",
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^}]*))?\})")
_MOUNTED_FROM = re.compile(r"(?:^|,)from=([^,]+)")
_WITH_HEREDOCS = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True, slots=True)
class Heredoc:
    """Lines that belong to an instruction."""

    name: str
    content: str
    expands: bool
    """Whether variables in it are replaced; false where its name was quoted."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continued lines joined."""

    name: str
    """In upper case."""
    flags: tuple[tuple[str, str], ...]
    value: str
    """What follows the flags."""
    first: int
    """Number of its first line, from 0."""
    after: int
    """Number of the line after its own, where its heredocs begin."""
    end: int
    """Number of the line after its heredocs."""
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def words(self) -> list[str]:
        """The value, divided at blanks."""
        return self.value.split()

    def flag(self, name: str) -> str | None:
        """The value of a flag's first occurrence."""
        return next((value for key, value in self.flags if key == name), None)


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A whole Dockerfile."""

    lines: tuple[str, ...]
    """Without their ends."""
    directives: Mapping[str, int]
    """By name in lower case, the number of the line, from 0."""
    instructions: tuple[Instruction, ...]
    syntax: str | None = None
    """Image of the program that is to read it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An image that an instruction names."""

    name: str
    """Variables filled in."""
    written: str
    """As it stands in the text."""
    instruction: Instruction


def read_dockerfile(text: str) -> Dockerfile:
    """Read a Dockerfile; whatever makes no sense is passed over."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    directives: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        match = _DIRECTIVE.match(line)
        if not match or match[1].lower() not in _DIRECTIVES:
            break
        directives.setdefault(match[1].lower(), (number, match[2]))
    escape = directives.get("escape", (0, "\\"))[1]
    return Dockerfile(
        lines=tuple(lines),
        directives={name: number for name, (number, _) in directives.items()},
        instructions=tuple(_instructions(lines, escape if escape == "`" else "\\")),
        syntax=directives["syntax"][1] if "syntax" in directives else None,
    )


def references(dockerfile: Dockerfile, args: Mapping[str, str]) -> list[Reference]:
    """Images that it is made from: of FROM, COPY --from and RUN --mount; not its own stages.

    `args` go before the defaults of its ARG lines.
    """
    found: list[Reference] = []
    known: dict[str, str] = {}
    stages: list[str] = []
    for instruction in dockerfile.instructions:
        if instruction.name == "ARG" and not stages:
            for name, default in _arguments(instruction.value):
                known[name] = args.get(name, filled(default, known))
        elif instruction.name == "FROM" and (words := instruction.words):
            name = filled(words[0].strip("\"'"), known)
            if name.lower() not in stages and name != "scratch":
                found.append(Reference(name, words[0].strip("\"'"), instruction))
            named = len(words) == 3 and words[1].lower() == "as"
            stages.append(words[2].lower() if named else "")
        else:
            found.extend(
                Reference(name, name, instruction)
                for name in _copied_from(instruction)
                if name.lower() not in stages and not name.isdecimal() and name != "scratch"
            )
    return found


def renamed(dockerfile: Dockerfile, names: Mapping[str, str], args: Mapping[str, str]) -> str:
    """The text with images called otherwise, and without a syntax line; lines keep their numbers.

    `names` are by the name with its variables filled in.
    """
    lines = list(dockerfile.lines)
    if dockerfile.syntax is not None:
        lines[dockerfile.directives["syntax"]] = "#"
        if "escape" in dockerfile.directives:  # which must stand before any comment
            lines = _escape_first(lines, dockerfile.directives["escape"])
    for reference in references(dockerfile, args):
        if (new := names.get(reference.name)) is None:
            continue
        at = reference.instruction
        head = "\n".join(lines[at.first : at.after])
        before = r"(?<=[\s\"'])" if at.name == "FROM" else "(?<=from=)"
        token = f"{before}{re.escape(reference.written)}(?![^\\s,\"'])"
        lines[at.first : at.after] = re.sub(token, lambda _, to=new: to, head, count=1).split("\n")  # type: ignore[misc]
    return "\n".join(lines)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Text with its variables replaced; those without a value stay as they are."""

    def value(match: re.Match[str]) -> str:
        name, how, other = match[1] or match[2], match[3], match[4]
        has = name in values and (not how or ":" not in how or values[name] != "")
        if how and how.endswith("+"):
            return filled(other, values) if has else ""
        if has:
            return values[name]
        return filled(other, values) if how else match[0]

    return _VARIABLE.sub(value, text)


def _escape_first(lines: list[str], number: int) -> list[str]:
    return [lines[number], *(line for at, line in enumerate(lines) if at != number)]


def _instructions(lines: list[str], escape: str) -> Iterator[Instruction]:
    number = 0
    while number < len(lines):
        if not lines[number].strip() or lines[number].lstrip().startswith("#"):
            number += 1
            continue
        text, after = _joined(lines, number, escape)
        instruction = _instruction(text, lines, number, after)
        yield instruction
        number = instruction.end


def _joined(lines: list[str], first: int, escape: str) -> tuple[str, int]:
    """An instruction's text, and the number of the line after it."""
    text = ""
    for number in range(first, len(lines)):
        line = lines[number]
        if number > first and (not line.strip() or line.lstrip().startswith("#")):
            continue  # neither ends an instruction that goes on
        if not line.rstrip().endswith(escape):
            return text + line.rstrip(), number + 1
        text += line.rstrip()[: -len(escape)]
    return text, len(lines)


def _instruction(text: str, lines: list[str], first: int, after: int) -> Instruction:
    head = _HEAD.match(text)
    assert head is not None  # a line that is not blank
    name, rest = head[1].upper(), head[2]
    flags: list[tuple[str, str]] = []
    while match := _FLAG.match(rest):
        flags.append((match[1].lower(), (match[2] or "").strip("\"'")))
        rest = rest[match.end() :]
    heredocs, end = _heredocs(rest, lines, after) if name in _WITH_HEREDOCS else ((), after)
    return Instruction(name, tuple(flags), rest.strip(), first, after, end, heredocs)


def _heredocs(value: str, lines: list[str], after: int) -> tuple[tuple[Heredoc, ...], int]:
    """Heredocs that begin in an instruction; none where one has no end."""
    found: list[Heredoc] = []
    end = after
    for match in _HEREDOC_OR_QUOTED.finditer(value):
        if not match["name"]:
            continue
        content: list[str] = []
        for number in range(end, len(lines)):
            line = lines[number].lstrip("\t") if match["dash"] else lines[number]
            if line == match["name"]:
                end = number + 1
                break
            content.append(f"{line}\n")
        else:
            return (), after
        found.append(Heredoc(match["name"], "".join(content), expands=not match["quote"]))
    return tuple(found), end


def _arguments(value: str) -> Iterator[tuple[str, str]]:
    """Names and defaults of an ARG line; one without a default is left to `args`."""
    for match in re.finditer(r"""(\w+)(?:=("[^"]*"|'[^']*'|\S*))?""", value):
        yield match[1], (match[2] or "").strip("\"'")


def _copied_from(instruction: Instruction) -> Iterator[str]:
    for key, value in instruction.flags:
        if key == "from" and instruction.name in ("COPY", "ADD"):
            yield value
        elif key == "mount" and instruction.name == "RUN":
            yield from _MOUNTED_FROM.findall(value)
