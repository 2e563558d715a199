"""Stopped by anything, at any moment: resumed, complete, nothing twice, nothing left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import LOOP, SCRIPTED, SUBMIT, Program, bash

pytestmark = pytest.mark.docker

TASKS = 6


@pytest.fixture
def busy(program: Program) -> Program:
    """Six tasks of about a second each, two at once."""
    for number in range(TASKS):
        program.write_task(f"task-{number}")
    program.write_script({"turns": [bash("sleep 0.7; echo 42 >/app/answer"), SUBMIT]})
    program.write_run(arms=[LOOP], endpoints=SCRIPTED, slots=2)
    return program


def finished_now(program: Program) -> dict[Path, float]:
    return {result["path"]: result["path"].stat().st_mtime for result in program.results()}


def assert_complete(program: Program, before: dict[Path, float]) -> None:
    """Every trial solved, none of the finished ones run or written again."""
    final = program.final()
    assert len(final) == TASKS
    assert {result["outcome"] for result in final.values()} == {"solved"}
    for path, written in before.items():
        assert path.stat().st_mtime == written
        later = [p for p in path.parent.parent.iterdir() if p.name > path.parent.name]
        assert json.loads(path.read_text())["outcome"] == "cancelled" or later == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_hard_at_a_random_moment(
    busy: Program, nothing_left: Callable[[str], None], seed: int
) -> None:
    process = busy.start("run", "run.yaml")
    enough = random.Random(seed).randint(1, TASKS - 1)
    busy.wait_for(lambda: busy.attempts_begun() > enough)
    process.kill()
    process.wait()
    begun, before = busy.attempts_begun(), finished_now(busy)
    assert len(before) < TASKS
    abandoned = begun - len(before)
    busy.call("resume")
    assert_complete(busy, before)
    # What was abandoned is kept beside what replaced it.
    assert busy.attempts_begun() == TASKS + abandoned
    nothing_left(busy.run_folder().name)


def test_interrupted_once(busy: Program, nothing_left: Callable[[str], None]) -> None:
    process = busy.start("run", "run.yaml")
    busy.wait_for(lambda: busy.results_written() >= 1 and busy.attempts_begun() >= 3)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    nothing_left(busy.run_folder().name)
    outcomes = [result["outcome"] for result in busy.results()]
    assert "solved" in outcomes
    assert "cancelled" in outcomes
    before = finished_now(busy)
    busy.call("resume", busy.run_folder().name[:18])
    assert_complete(busy, before)


def test_interrupted_twice(busy: Program, nothing_left: Callable[[str], None]) -> None:
    process = busy.start("run", "run.yaml")
    busy.wait_for(lambda: busy.attempts_begun() >= 2)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    before = finished_now(busy)
    busy.call("resume")
    assert_complete(busy, before)
    nothing_left(busy.run_folder().name)


def test_clean_removes_what_the_dead_left_and_nothing_else(
    busy: Program, nothing_left: Callable[[str], None]
) -> None:
    process = busy.start("run", "run.yaml")
    busy.wait_for(lambda: busy.attempts_begun() >= 2)
    alive = json.loads(busy.call("clean", "--json").stdout)
    assert alive == {"containers": [], "processes": []}
    busy.wait_for(lambda: busy.results_written() >= 1)
    process.kill()
    process.wait()
    busy.call("clean")
    nothing_left(busy.run_folder().name)


def test_two_runs_on_one_folder(busy: Program) -> None:
    process = busy.start("run", "run.yaml")
    busy.wait_for(lambda: busy.attempts_begun() >= 1)
    done = busy.call("resume", check=2)
    assert "in use" in done.stderr or "locked" in done.stderr
    assert str(process.pid) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert process.wait(120) == 0
    assert len(busy.final()) == TASKS


def test_a_changed_task_is_refused_by_name(busy: Program) -> None:
    process = busy.start("run", "run.yaml")
    busy.wait_for(lambda: busy.results_written() >= 1)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    (busy.folder / "tasks" / "task-3" / "instruction.md").write_text("Another task.\n")
    done = busy.call("resume", check=2)
    assert "task 'task-3' has changed" in done.stderr


def server(script: Path) -> tuple[subprocess.Popen[bytes], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rackbench_harnesses.testing.scripted_server", str(script)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["base_url"]


def stop(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGTERM)
    process.wait(20)
    assert process.stdout is not None
    process.stdout.close()


def test_an_engine_on_another_port_goes_on_with_the_same_run(busy: Program) -> None:
    script = busy.folder / "script.yaml"
    first, url = server(script)
    endpoints = {"model": {"kind": "external", "url": url, "model": "scripted"}}
    file = busy.write_run(arms=[LOOP], endpoints=endpoints, slots=2)
    process = busy.start("run", file)
    busy.wait_for(lambda: busy.results_written() >= 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    stop(first)
    second, other_url = server(script)
    before = finished_now(busy)
    try:
        assert other_url != url
        refused = busy.call("resume", check=3)
        assert url in refused.stderr
        busy.call("resume", "-s", f"endpoints.model.url={other_url}")
    finally:
        stop(second)
    assert_complete(busy, before)
    digests = {result["key"]["arm_digest"] for result in busy.results()}
    assert len(digests) == 1


def test_another_model_does_not_pass_as_the_same_arm(busy: Program) -> None:
    script = busy.folder / "script.yaml"
    process, url = server(script)
    endpoint = {"kind": "external", "url": url, "model": "scripted"}
    endpoint["serving"] = {"args": "--max-model-len 32768"}  # type: ignore[assignment]
    file = busy.write_run(arms=[LOOP], endpoints={"model": endpoint}, slots=2)
    started = busy.start("run", file)
    busy.wait_for(lambda: busy.results_written() >= 1)
    started.send_signal(signal.SIGINT)
    assert started.wait(60) == 130
    try:
        change = "endpoints.model.serving.args=--max-model-len 4096"
        done = busy.call("resume", "-s", change, check=2)
        assert "arm 'loop-model' has changed" in done.stderr
        assert "4096" in done.stderr
        # The same words in the run file, another context at the same address.
        stop(process)
        script.write_text(script.read_text() + "context_tokens: 1234\n")
        process, other = server(script)
        done = busy.call("resume", "-s", f"endpoints.model.url={other}", check=2)
        assert "is not the one this run began with" in done.stderr
        assert "1234" in done.stderr
    finally:
        stop(process)
