"""What a file of a repository is for, judged by its path."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import PurePosixPath

TEST_FOLDERS = frozenset(
    {
        "test",
        "tests",
        "testing",
        "__tests__",
        "spec",
        "specs",
        "t",
        "unittests",
        "integration_tests",
    }
)
CONTROL_FILES = frozenset(
    {
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "sitecustomize.py",
        "usercustomize.py",
    }
)
"""Steer how Python tests run, wherever they lie."""
CONFIGURATION_FILES = frozenset({"pyproject.toml", "setup.cfg", "tox.ini"})
"""Steer it where they lie at the top."""

_TEST_NAME = re.compile(
    r"""^(?:
        test_.*\.py | .*_tests?\.py | tests\.py | conftest\.py
      | .*_test\.(?:go|rb|exs|cc|cpp|c|dart) | .*_spec\.(?:rb|lua)
      | .*\.(?:test|spec)\.[cm]?[jt]sx?
      | (?:Test.*|.*Tests?|.*IT|.*Spec)\.(?:java|kt|scala|cs|php|swift)
    )$""",
    re.VERBOSE,
)
_CI = re.compile(
    r"^(?:\.github|\.gitlab|\.circleci|\.buildkite|\.ci|\.azure-pipelines|\.devcontainer)/"
    r"|^(?:\.travis\.yml|\.gitlab-ci\.yml|azure-pipelines\.yml|appveyor\.yml|Jenkinsfile"
    r"|\.pre-commit-config\.yaml|\.readthedocs\.ya?ml|noxfile\.py|tox\.ini|codecov\.yml"
    r"|\.codecov\.yml|\.gitignore|\.editorconfig|\.gitattributes|CODEOWNERS)$"
)
_DEPENDENCIES = re.compile(
    r"(?:^|/)(?:.*\.lock|package-lock\.json|pnpm-lock\.yaml|npm-shrinkwrap\.json|go\.sum"
    r"|(?:dev-)?requirements[^/]*\.(?:txt|in)|constraints[^/]*\.txt|renovate\.json)$"
    r"|^requirements/"
)
_DOCUMENT = re.compile(
    r"(?:^|/)(?:docs?|changelog\.d|changes|news(?:fragments)?)/"
    r"|\.(?:md|rst|adoc|markdown)$"
    r"|(?:^|/)(?:CHANGE(?:S|LOG)|HISTORY|NEWS|AUTHORS|CONTRIBUTORS|LICEN[CS]E|NOTICE|CITATION)"
    r"[^/]*$",
    re.IGNORECASE,
)


class PathKind(StrEnum):
    """What a file is for."""

    TEST = "test"
    CI = "ci"
    DEPENDENCIES = "dependencies"
    """Names or pins what the project needs."""
    DOCUMENT = "document"
    SOURCE = "source"


def kind_of(path: str) -> PathKind:
    """What a path of a repository is for, by its folders and its name."""
    if is_test(path):
        return PathKind.TEST
    if _CI.search(path):
        return PathKind.CI
    if _DEPENDENCIES.search(path):
        return PathKind.DEPENDENCIES
    if _DOCUMENT.search(path):
        return PathKind.DOCUMENT
    return PathKind.SOURCE


def is_test(path: str) -> bool:
    """Whether a file is a test, or lies in a folder of tests."""
    pure = PurePosixPath(path)
    return bool(_TEST_NAME.match(pure.name)) or folder_of_tests(path) is not None


def folder_of_tests(path: str) -> str | None:
    """The outermost folder of tests that a file lies in."""
    parts = PurePosixPath(path).parts[:-1]
    for number, part in enumerate(parts):
        if part.lower() in TEST_FOLDERS or part.endswith("_tests"):
            return "/".join(parts[: number + 1])
    return None


def is_runnable_test(path: str) -> bool:
    """Whether a file holds tests itself, and is not only their data or support."""
    name = PurePosixPath(path).name
    return bool(_TEST_NAME.match(name)) and name != "conftest.py"


def steers_tests(path: str) -> bool:
    """Whether a file changes how tests of Python run."""
    return PurePosixPath(path).name in CONTROL_FILES or path in CONFIGURATION_FILES
