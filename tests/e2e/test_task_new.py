"""A new task's skeleton works as it is."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import program as programs
import pytest
from program import Program

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


@pytest.mark.parametrize("language", ["python", "shell"])
@pytest.mark.parametrize("verifier", ["separate", "shared"])
def test_it_passes_the_check(program: Program, language: str, verifier: str) -> None:
    done = program.call(
        "task", "new", "acme/add-up", "--to", "tasks", "--language", language,
        "--verifier", verifier,
    )  # fmt: skip
    assert done.stdout.strip() == "tasks/add-up"
    report = program.call(
        "task", "check", "tasks/add-up", "--strict", "--times", "1", "--no-rebuild", "--json"
    )
    (task,) = json.loads(report.stdout)["tasks"]
    assert task["proved"]


def test_options_reach_the_files(program: Program) -> None:
    program.call(
        "task", "new", "add-up", "--base", "debian:bookworm", "--network", "public",
        "--verifier", "shared",
    )  # fmt: skip
    folder = program.folder / "add-up"
    assert (folder / "environment/Dockerfile").read_text().startswith("FROM debian:bookworm\n")
    toml = (folder / "task.toml").read_text()
    assert 'network_mode = "public"' in toml
    assert 'environment_mode = "shared"' in toml
    assert "artifacts" not in toml
    assert not (folder / "tests/Dockerfile").exists()


def test_nothing_is_overwritten(program: Program) -> None:
    (program.folder / "add-up").mkdir()
    done = program.call("task", "new", "add-up", check=2)
    assert "nothing is overwritten" in done.stderr
    assert list((program.folder / "add-up").iterdir()) == []


@pytest.mark.parametrize("name", ["../out", "a b", "-x-/", ""])
def test_unsafe_names(program: Program, name: str) -> None:
    assert "no name for a task" in program.call("task", "new", "--", name, check=2).stderr
    assert [path.name for path in program.folder.iterdir()] == []


def test_a_name_is_needed_where_nobody_can_be_asked(program: Program) -> None:
    assert "name the task" in program.call("task", "new", check=2).stderr


def test_a_terminal_is_asked(program: Program) -> None:
    ours, theirs = pty.openpty()
    asked = subprocess.Popen(
        [programs.RACKBENCH, "task", "new", "--network", "public"],
        cwd=program.folder,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(theirs)
    os.write(ours, b"add-up\nshell\n\n\n")
    output, _ = asked.communicate(timeout=60)
    os.close(ours)
    assert asked.returncode == 0
    assert output.decode().strip() == "add-up"
    folder = Path(program.folder, "add-up")
    assert (folder / "solution/total.sh").exists()
    assert 'environment_mode = "separate"' in (folder / "task.toml").read_text()
    assert 'network_mode = "public"' in (folder / "task.toml").read_text()
