"""What is read of a repository without running anything of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rackbench.errors import UsageError
from rackbench.from_commit import find_fix, open_repository
from rackbench.from_commit.dockerfile import read_devcontainer
from rackbench.from_commit.draft import draft_instruction
from rackbench.from_commit.path_kind import PathKind, folder_of_tests, is_runnable_test, kind_of
from rackbench.from_commit.python_project import read_project

KINDS = {
    "src/pkg/core.py": PathKind.SOURCE,
    "src/contest.py": PathKind.SOURCE,
    "src/latest/run.go": PathKind.SOURCE,
    "tests/data/in.json": PathKind.TEST,
    "pkg/tests/test_core.py": PathKind.TEST,
    "pkg/server_test.go": PathKind.TEST,
    "src/app.spec.ts": PathKind.TEST,
    "spec/models/user_spec.rb": PathKind.TEST,
    "src/test/java/AppTest.java": PathKind.TEST,
    "typing_tests/baseline.py": PathKind.TEST,
    "conftest.py": PathKind.TEST,
    ".github/workflows/tests.yml": PathKind.CI,
    "tox.ini": PathKind.CI,
    "uv.lock": PathKind.DEPENDENCIES,
    "go.sum": PathKind.DEPENDENCIES,
    "requirements/dev.txt": PathKind.DEPENDENCIES,
    "docs/index.rst": PathKind.DOCUMENT,
    "CHANGES.rst": PathKind.DOCUMENT,
    "changelog.d/1606.change.md": PathKind.DOCUMENT,
}


@pytest.mark.parametrize("path", KINDS)
def test_kinds_of_paths(path: str) -> None:
    assert kind_of(path) is KINDS[path]


def test_tests_that_are_run_and_what_only_belongs_to_them() -> None:
    assert is_runnable_test("tests/test_core.py")
    assert is_runnable_test("src/parser_test.go")
    assert not is_runnable_test("tests/conftest.py")
    assert not is_runnable_test("tests/data/in.json")
    assert folder_of_tests("pkg/tests/unit/test_core.py") == "pkg/tests"
    assert folder_of_tests("pkg/core.py") is None


def test_a_devcontainer_with_comments() -> None:
    found = read_devcontainer(
        """{
          // "image": "not this one",
          "build": {"dockerfile": "Dockerfile", "context": ".."}, /* of the editor */
          "features": {"ghcr.example/node:1": {}},
          "postCreateCommand": ["pip", "install", "-e", "."],
          "customizations": {"url": "https://example.com//path"},
        }""",
        ".devcontainer",
    )
    assert (found.image, found.dockerfile, found.context) == (
        None,
        ".devcontainer/Dockerfile",
        ".",
    )
    assert found.commands == ("pip install -e .",)
    assert found.left_out == ("features",)
    with pytest.raises(UsageError, match="neither an image nor a Dockerfile"):
        read_devcontainer("{}", ".devcontainer")


def repository(folder: Path, *commits: tuple[str, dict[str, str]]) -> Path:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)

    folder.mkdir()
    git("init", "-q", "-b", "main")
    for message, files in commits:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", message)
    git("tag", "release-1.4.2")
    return folder


def test_requirements_of_a_python_project(tmp_path: Path) -> None:
    pyproject = """
        [build-system]
        requires = ["hatchling"]
        [project]
        name = "Some.Thing"
        dependencies = ["attrs>=22"]
        [dependency-groups]
        tests = [{include-group = "base"}, "hypothesis", "ruff"]
        base = ["pytest<9"]
    """
    lock = """
        [[package]]
        name = "Hypothesis"
        version = "6.1"
        [[package]]
        name = "numpy"
        version = "1.0"
        [[package]]
        name = "numpy"
        version = "2.0"
    """
    made = open_repository(
        repository(tmp_path / "it", ("First", {"pyproject.toml": pyproject, "uv.lock": lock}))
    )
    project = read_project(made, "HEAD")
    assert project.name == "some-thing"
    assert project.requirements == ("hatchling", "editables", "attrs>=22", "pytest<9", "hypothesis")
    assert project.tests_from == "[dependency-groups] tests of pyproject.toml"
    assert project.pins == ("hypothesis==6.1",)
    assert project.version == "1.4.2"


def test_a_project_that_is_not_installed(tmp_path: Path) -> None:
    files = {"requirements-test.txt": "-r base.txt\nmock==5.1 \\\n  --hash=sha256:00  # old\n"}
    project = read_project(open_repository(repository(tmp_path / "it", ("First", files))), "HEAD")
    assert (project.name, project.tests) == (None, ("mock==5.1",))
    assert project.requirements == ("mock==5.1", "pytest")


def test_a_draft_tells_neither_tests_nor_change(tmp_path: Path) -> None:
    message = (
        "fix(core): Keep the order of options (#12)\n\n"
        "Since 0123abcd9 options came in any order.\n\n"
        "* Update tests/test_core.py\n"
        "* Add a regression test\n"
        "* fix(core): Keep the order of options\n"
        "* Update CHANGES.md\n* Add a changelog entry\n"
        "Fixes #11.\nSee https://example.com/somebody/it/issues/11\n---------\n\n"
        "Co-authored-by: Somebody <somebody@example.com>\n"
    )
    folder = repository(
        tmp_path / "it",
        ("First", {"core.py": "", "tests/test_core.py": ""}),
        (message, {"core.py": "1\n", "tests/test_core.py": "def test_a(): pass\n"}),
    )
    fix = find_fix(open_repository(folder), "HEAD")
    text = draft_instruction(fix, issue=None, workdir="/app")
    assert text.startswith(
        "# Keep the order of options\n\nSince an earlier commit options came in any order.\n\n"
        "The project is in `/app`"
    )
