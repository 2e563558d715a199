"""What a shell script would fetch: read from its text, as far as the text says it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

ReadRequirements = Callable[[str], tuple[str, ...]]
"""The lines of a requirements file by the name that a script gives it; none where it is not there."""

_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w\s,.-]*\])?\s*([=<>!~]=?[^;$]*)?(;[^$]*)?")
_VERSION = re.compile(r"(?:cpython|python)?[-@=~>]*(3\.\d+)(\.\d+)?$")
_REDIRECTION = re.compile(r"(?<!\S)\d*(?:>>?|<)&?\s*[^\s;|&]+|(?<!\S)&>>?\s*\S+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_INTERPRETER = re.compile(r"(?:.*/)?python[\d.]*$")
_LEADING = re.compile(
    r"if|then|else|elif|while|until|do|!|\{|exec|time|sudo|command|env|nohup|nice|eval"
)
_OTHERS = {
    "npm": ("install", "ci", "i"),
    "npx": (),
    "yarn": ("install", "add"),
    "cargo": ("install", "fetch"),
    "go": ("get", "install"),
    "gem": ("install",),
    "conda": ("install", "create"),
    "apk": ("add",),
    "dnf": ("install",),
    "yum": ("install",),
}
# Options of pip and uv that take a value.
_VALUED = re.compile(
    "-[cftePj]|--(constraints?|find-links|target|prefix|root|timeout|retries|cert|proxy|log|src"
    "|trusted-host|cache-dir|config-file|directory|project|group|extra|link-mode|exclude-newer"
    "|only-binary|no-binary|resolution|prerelease|index-strategy|upgrade-strategy|platform|abi"
    "|implementation|with-editable|env-file|color|editable|overrides?|upgrade-package)"
)
_PYTHON = ("-p", "--python", "--python-version")
_INDEX = ("-i", "--index-url", "--default-index", "--index", "--extra-index-url")
_FILES = ("-r", "--requirement", "--requirements", "--with-requirements")


@dataclass(frozen=True, slots=True)
class Request:
    """Packages that are to be installed together."""

    requirements: tuple[str, ...]
    python: str | None = None
    """Version that is named, as `3.13`."""
    index: str | None = None
    """Address that is named beside the usual one."""


@dataclass(slots=True)
class Wishes:
    """Everything that one script would fetch."""

    requests: list[Request] = field(default_factory=list)
    pythons: set[str] = field(default_factory=set)
    """Versions that are named."""
    system_packages: list[str] = field(default_factory=list)
    """Of apt."""
    others: list[str] = field(default_factory=list)
    """Commands whose wants the tools cannot answer, as they stand."""


def wishes_of(text: str, read_requirements: ReadRequirements) -> Wishes:
    """What the commands of a script would fetch; commands that fetch nothing are passed over."""
    wishes = Wishes()
    for words in _commands(text):
        _add(words, wishes, read_requirements)
    return wishes


def requirement_lines(text: str) -> tuple[str, ...]:
    """The requirements of a requirements file."""
    found = []
    for line in text.splitlines():
        bare = re.sub(r"(^|\s)#.*$", "", line).split(" --hash")[0].strip(" \\\t")
        if _REQUIREMENT.fullmatch(bare):
            found.append(bare)
    return tuple(found)


def _commands(text: str) -> Iterator[list[str]]:
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        lexer = shlex.shlex(_REDIRECTION.sub(" ", line), posix=True, punctuation_chars=";&|()")
        lexer.whitespace_split = True
        words: list[str] = []
        try:
            for word in lexer:
                if set(word) <= set(";&|()"):
                    yield _bare(words)
                    words = []
                else:
                    words.append(word)
        except ValueError:  # a quotation that goes on in the next line
            pass
        yield _bare(words)


def _bare(words: list[str]) -> list[str]:
    """A command without what may stand before it."""
    words = list(words)
    while words:
        first = words[0]
        if _LEADING.fullmatch(first) or _ASSIGNMENT.match(first):
            words.pop(0)
        elif first == "timeout":
            words.pop(0)
            while words and (words[0].startswith("-") or words[0][0].isdigit()):
                words.pop(0)
        else:
            break
    return words


def _add(words: list[str], wishes: Wishes, read: ReadRequirements) -> None:
    if len(words) < 2:
        return
    program = words[0].rsplit("/", 1)[-1]
    if _INTERPRETER.match(program) and words[1:3] in (["-m", "pip"], ["-m", "uv"]):
        program, words = words[2], words[2:]
    if program == "uvx" or (program == "uv" and words[1:3] == ["tool", "run"]):
        _add_run(words[1:] if program == "uvx" else words[3:], wishes, read, own_package=True)
    elif program == "uv":
        _add_uv(words, wishes, read)
    elif re.fullmatch(r"pip[\d.]*", program) and "install" in words[1:3]:
        _add_install(words[words.index("install") + 1 :], wishes, read)
    elif program in ("apt-get", "apt") and "install" in words:
        names = words[words.index("install") + 1 :]
        wishes.system_packages += [name for name in names if not name.startswith("-")]
    elif program in _OTHERS and (not _OTHERS[program] or words[1] in _OTHERS[program]):
        wishes.others.append(shlex.join(words))


def _add_uv(words: list[str], wishes: Wishes, read: ReadRequirements) -> None:
    match [word for word in words[1:] if not word.startswith("-")][:2]:
        case ["pip", "install"] | ["tool", "install"] | ["add", *_]:
            verb = "add" if "add" in words[:3] else "install"
            _add_install(words[words.index(verb) + 1 :], wishes, read)
        case ["run", *_]:
            _add_run(words[words.index("run") + 1 :], wishes, read, own_package=False)
        case ["python", "install"]:
            wishes.pythons |= {v for word in words[3:] if (v := _version(word))}
        case ["sync", *_] | ["lock", *_]:
            wishes.others.append(shlex.join(words))
        case ["venv" | "init", *_]:
            _, options = _split(words[2:])
            wishes.pythons |= {v for word in options.get("python", []) if (v := _version(word))}


def _add_install(words: Sequence[str], wishes: Wishes, read: ReadRequirements) -> None:
    names, options = _split(words)
    names += options.get("with", [])
    _request(names, options, wishes, read)


def _add_run(
    words: Sequence[str], wishes: Wishes, read: ReadRequirements, *, own_package: bool
) -> None:
    """`uvx` and `uv run`: options end where the program to be run is named."""
    rest, options = _split(words, until_name=True)
    names = [part for value in options.get("with", []) for part in value.split(",")]
    if own_package and (options.get("from") or rest):
        names.append(options["from"][0] if options.get("from") else rest[0].replace("@", "=="))
    names = [name.removesuffix("==latest") for name in names]
    _request(names, options, wishes, read)


def _split(
    words: Sequence[str], *, until_name: bool = False
) -> tuple[list[str], dict[str, list[str]]]:
    """Names, and the values of the options that matter."""
    kinds = dict.fromkeys(_PYTHON, "python") | dict.fromkeys(_INDEX, "index")
    kinds |= dict.fromkeys(_FILES, "files") | {"-w": "with", "--with": "with", "--from": "from"}
    names: list[str] = []
    options: dict[str, list[str]] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            names.append(word)
            if until_name:
                break
        elif option in kinds or _VALUED.fullmatch(option):
            if not equals:
                value = left.pop(0) if left else ""
            options.setdefault(kinds.get(option, "other"), []).append(value)
    return names, options


def _request(
    names: Sequence[str], options: dict[str, list[str]], wishes: Wishes, read: ReadRequirements
) -> None:
    good: list[str] = []
    for name in names:
        if _REQUIREMENT.fullmatch(name):
            good.append(name)
        elif name not in (".", "--"):
            wishes.others.append(f"install {name}")
    for file in options.get("files", []):
        lines = read(file)
        good += lines
        if not lines:
            wishes.others.append(f"install -r {file}")
    versions = [v for word in options.get("python", []) if (v := _version(word))]
    wishes.pythons |= set(versions)
    if good:
        index = next((url for url in options.get("index", []) if "$" not in url), None)
        python = versions[0] if versions else None
        wishes.requests.append(Request(tuple(sorted(set(good))), python, index))


def _version(word: str) -> str | None:
    found = _VERSION.match(word)
    return found.group(1) if found else None
