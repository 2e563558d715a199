"""What a Python project needs to be installed and tested, as it says itself without being run."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackbench.from_commit.repository import Repository

_TEST_GROUPS = ("tests", "test", "testing")
_REQUIREMENT_FILES = tuple(
    f"{folder}{name}.{ending}"
    for ending in ("in", "txt")
    for folder in ("requirements/", "requirements-", "tests/requirements-", "")
    for name in ("tests", "test", "testing", "test-requirements", "requirements-test")
)
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_SETUPTOOLS = ("setuptools", "wheel")
# Often listed beside what tests need, large, and never imported by a test.
_NO_TEST_TOOLS = frozenset(
    {"black", "flake8", "isort", "nox", "pre-commit", "pylint", "ruff", "tox", "tox-uv"}
)
# What back ends ask for only once they are asked to install in place.
_TO_BE_EDITABLE = {"hatchling": "editables", "setuptools": "wheel"}
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_VERSION = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class PythonProject:
    """Requirements by purpose, each as pip reads them."""

    name: str | None
    """As it is installed, normalised; None: the project is not installable."""
    build: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    tests_from: str | None = None
    """Where `tests` was found."""
    pins: tuple[str, ...] = ()
    """Versions of its lock file, as constraints of pip: those of its own time."""
    version: str = "0.0.0"
    """Of the last tag; for back ends that ask the history, which is cut."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """All of them, with pytest."""
        tests = [text for text in self.tests if normalised(text) not in _NO_TEST_TOOLS]
        wanted = [*self.build, *self.runtime, *tests]
        if not any(normalised(text) == "pytest" for text in wanted):
            wanted.append("pytest")
        return tuple(dict.fromkeys(wanted))


def read_project(repository: Repository, commit: str) -> PythonProject:
    """Read pyproject.toml, setup.cfg and requirement files of a commit."""
    pyproject = _toml(repository.content(commit, "pyproject.toml"))
    setup = _ini(repository.content(commit, "setup.cfg"))
    has_script = repository.content(commit, "setup.py") is not None
    project = pyproject.get("project", {})
    name = project.get("name") or setup.get("metadata", "name", fallback=None)
    installable = "build-system" in pyproject or "project" in pyproject or has_script
    runtime = list(project.get("dependencies", ()))
    runtime += _lines(setup.get("options", "install_requires", fallback=""))
    tests, origin = _tests(repository, commit, pyproject, setup)
    return PythonProject(
        name=(normalised(name) if name else "unnamed") if installable else None,
        build=tuple(_build(pyproject)) if installable else (),
        runtime=tuple(runtime),
        tests=tuple(tests),
        tests_from=origin,
        pins=tuple(_pins(repository, commit)),
        version=_version(repository, commit),
    )


def normalised(requirement: str) -> str:
    """The name in a requirement, as package indexes compare names."""
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def _build(pyproject: Mapping[str, Any]) -> Sequence[str]:
    wanted = pyproject.get("build-system", {}).get("requires", _SETUPTOOLS)
    names = {normalised(str(text)) for text in wanted}
    more = [text for name, text in _TO_BE_EDITABLE.items() if name in names]
    return [*map(str, wanted), *more]


def _tests(
    repository: Repository,
    commit: str,
    pyproject: Mapping[str, Any],
    setup: configparser.ConfigParser,
) -> tuple[list[str], str | None]:
    groups = pyproject.get("dependency-groups", {})
    project = pyproject.get("project", {})
    extras = project.get("optional-dependencies", {})
    own_name = normalised(str(project.get("name", "")))
    for name in _TEST_GROUPS:
        if name in groups:
            return _group(groups, name), f"[dependency-groups] {name} of pyproject.toml"
        if name in extras:
            found = _extra(extras, name, own_name)
            return found, f"[project.optional-dependencies] {name} of pyproject.toml"
        if text := setup.get("options.extras_require", name, fallback=""):
            return _lines(text), f"[options.extras_require] {name} of setup.cfg"
    for path in _REQUIREMENT_FILES:
        if (content := repository.content(commit, path)) is not None:
            return _lines(content.decode(errors="replace")), path
    return [], None


def _group(groups: Mapping[str, Any], name: str, seen: tuple[str, ...] = ()) -> list[str]:
    found: list[str] = []
    for item in groups.get(name, ()):
        if isinstance(item, str):
            found.append(item)
        elif (inner := item.get("include-group")) and inner not in seen:
            found += _group(groups, inner, (*seen, name))
    return found


def _extra(
    extras: Mapping[str, Sequence[str]], name: str, own_name: str, seen: tuple[str, ...] = ()
) -> list[str]:
    found: list[str] = []
    for item in extras.get(name, ()):
        match = _NAME.match(item)
        if match and own_name and normalised(item) == own_name:
            for inner in (match[2] or "").split(","):
                if inner.strip() not in seen:
                    found += _extra(extras, inner.strip(), own_name, (*seen, name))
        else:
            found.append(item)
    return found


def _lines(text: str) -> list[str]:
    """Requirements of a list or file; options, paths, hashes and comments left out."""
    lines: Iterable[str] = re.sub(r"\\\n", " ", text).splitlines()
    bare = (re.sub(r"(?:^|\s)#.*|\s--hash=\S+", "", line).strip() for line in lines)
    return [line for line in bare if line and not line.startswith(("-", ".", "/"))]


def _pins(repository: Repository, commit: str) -> Iterator[str]:
    for path in _LOCKS:
        lock = _toml(repository.content(commit, path))
        versions: dict[str, set[str]] = {}
        for package in (*lock.get("package", ()), *lock.get("packages", ())):
            if "version" in package:
                versions.setdefault(normalised(package["name"]), set()).add(package["version"])
        if versions:
            # Several versions are for several Pythons.
            yield from (f"{n}=={min(v)}" for n, v in sorted(versions.items()) if len(v) == 1)
            return


def _version(repository: Repository, commit: str) -> str:
    described = repository.text(
        "for-each-ref", "--merged", commit, "--sort=-creatordate", "--count=1",
        "--format=%(refname:short)", "refs/tags",
    )  # fmt: skip
    found = _VERSION.search(described)
    return found[0] if found else "0.0.0"


def _toml(content: bytes | None) -> dict[str, Any]:
    try:
        return tomllib.loads((content or b"").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}


def _ini(content: bytes | None) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string((content or b"").decode())
    except (configparser.Error, UnicodeDecodeError):
        return configparser.ConfigParser(interpolation=None)
    return parser
