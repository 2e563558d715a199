"""A real vLLM with a real small model: driven, killed, started again, and never left behind."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from program import Program

pytestmark = [pytest.mark.docker, pytest.mark.engine, pytest.mark.timeout(600)]

# A program that the smallest instruct model can name, so a real model takes the step that solves.
COPY = "Task: finish the job\nCommand: finish\n\n"
DOCKERFILE = """\
FROM rackbench/base:1
WORKDIR /app
RUN printf '#!/bin/sh\\necho 42 >/app/answer\\n' >/usr/local/bin/finish && chmod 755 /usr/local/bin/finish
"""
ARM = {
    "harness": "loop",
    "name": "small",
    "endpoint": "engine",
    "settings": {"tool_choice": "required", "output_tokens": 64},
}
PRICE = {"per_device_hour": 0.1, "currency": "EUR", "date": "2026-12-01", "source": "a test"}
ENGINE = {"engine": {"kind": "vllm", "profile": "smollm2-135m", "price": PRICE}}


def write_tasks(program: Program, count: int) -> Path:
    for number in range(count):
        task = program.write_task(f"copy-{number}", agent_seconds=300)
        (task / "instruction.md").write_text(COPY * 2 + COPY.partition(" finish\n\n")[0])
        (task / "environment" / "Dockerfile").write_text(DOCKERFILE)
    return program.write_run(arms=[ARM], endpoints=ENGINE, slots=2, limits={"steps": 3})


SEEN_GROUPS: set[int] = set()


def engine_processes(program: Program) -> list[psutil.Process]:
    """Guard, API server, engine core and worker: what carries the run's label, and their groups.

    Workers rename themselves over their environment, so that only their group tells.
    """
    run_id = program.run_folder().name
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("RACKBENCH_RUN") == run_id:
                SEEN_GROUPS.add(os.getpgid(process.pid))
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) in SEEN_GROUPS:
                found.append(process)
    return found


def read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value


def test_a_real_model_solves_a_task_and_is_accounted_for(program: Program) -> None:
    file = write_tasks(program, 1)
    done = program.call("run", file, "--json")
    summary = json.loads(done.stdout)
    (arm,) = summary["arms"]
    assert (arm["solved"], arm["counted"]) == (1, 1)
    assert arm["steps"] >= 1
    assert arm["prompt_tokens"] > arm["completion_tokens"] > 0
    assert arm["cached_tokens"] is not None
    assert arm["ttft_seconds_median"] > 0
    assert arm["itl_seconds_median"] > 0
    (endpoint,) = summary["endpoints"]
    assert endpoint["device"] == "cpu"
    parts = endpoint["attributed_hours"] + endpoint["unattributed_hours"]
    assert parts == pytest.approx(endpoint["total_hours"])
    assert endpoint["cost"] == pytest.approx(endpoint["total_hours"] * 0.1)
    # Nobody else used the engine, so that all of it is this arm's; its calls took a part only.
    assert arm["cost"] == pytest.approx(endpoint["cost"])
    assert 0 < arm["device_hours"] < endpoint["total_hours"]
    folder = program.run_folder() / "endpoints" / "engine"
    checks = {check["name"]: check["state"] for check in read(folder / "preflight.json")["checks"]}
    assert checks == {"completion": "pass", "tool_call": "pass"}
    identity = read(folder / "identity.json")
    assert identity["engine"].startswith("vllm ")
    assert identity["weights"].startswith("sha256:")
    assert engine_processes(program) == []


@pytest.mark.parametrize("victim", ["VLLM::Worker", "vllm"])
def test_an_engine_killed_in_mid_run_is_started_again(program: Program, victim: str) -> None:
    process = program.start("run", write_tasks(program, 4))
    program.wait_for(lambda: program.results_written() >= 1, seconds=240)
    program.wait_for(
        lambda: len(list(program.folder.glob("runs/*/trials/*/*/*/*/calls.jsonl"))) > 2
    )
    targets = [p for p in engine_processes(program) if is_victim(p, victim)]
    assert targets
    for target in targets:
        target.kill()
    assert process.wait(400) == 0
    results = program.results()
    void = [result for result in results if result["outcome"] == "void"]
    assert void
    assert {result["reason"] for result in void} == {"endpoint"}
    assert {result["outcome"] for result in program.final().values()} == {"solved"}
    assert len(program.final()) == 4
    (cost,) = (program.run_folder() / "endpoints" / "engine").glob("cost-*.json")
    assert read(cost)["restarts"] == 1
    assert engine_processes(program) == []


def is_victim(process: psutil.Process, name: str) -> bool:
    command = process.cmdline()
    if name == "vllm":  # the API server, by its program
        return len(command) > 2 and command[1].endswith("/bin/vllm")
    return name in " ".join(command)


def test_a_runner_killed_hard_leaves_no_engine(program: Program) -> None:
    process = program.start("run", write_tasks(program, 2))
    program.wait_for(lambda: program.attempts_begun() >= 1, seconds=240)
    assert len(engine_processes(program)) >= 3
    process.kill()
    process.wait()
    program.wait_for(lambda: engine_processes(program) == [], seconds=60)
    program.call("resume")
    assert {result["outcome"] for result in program.final().values()} == {"solved"}
    assert engine_processes(program) == []
