"""Task folders of Terminal-Bench 1: what comes out, value by value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rackbench_tasks import (
    AgentPhase,
    Build,
    Compose,
    Environment,
    Solution,
    Stage,
    Task,
    VerifierPhase,
    task_digest,
)
from rackbench_tasks.formats.terminal_bench_1 import TerminalBench1

GOLDEN = Path(__file__).parents[1] / "data" / "tasks" / "terminal-bench-1"
MIB = 1024 * 1024
INSTRUCTION = "Create the empty file /app/done."
RUN_TESTS = b'#!/bin/bash\npython3 -m pytest "$TEST_DIR/test_outputs.py" -rA\n'


def load(folder: Path) -> Task:
    assert TerminalBench1().detect(folder)
    task = TerminalBench1().load(folder, strict=True, host_env={})
    assert (task.id, task.folder, task.format) == (folder.name, folder, "terminal-bench-1")
    assert task.digest == task_digest(folder)
    return task


def usual(folder: Path, **verifier: object) -> Stage:
    """What a folder without any surprise holds."""
    phase = VerifierPhase(
        tests=(folder / "tests",),
        files={"run-tests.sh": RUN_TESTS},
        command=("bash", "/tests/run-tests.sh"),
        timeout_seconds=60.0,
        env={"TEST_DIR": "/tests"},
        user="root",
        parser="pytest",
    )
    return Stage(
        instruction=INSTRUCTION,
        agent=AgentPhase(360.0),
        verifier=replace(phase, **verifier),  # type: ignore[arg-type]
    )


def script(content: bytes) -> Solution:
    return Solution(files={"solution.sh": content}, script="solution.sh")


def test_a_single_service_is_a_plain_container() -> None:
    folder = GOLDEN / "single-service"
    task = load(folder)
    assert task.environment == Environment(
        build=Build(folder, args={"LEVEL": "2"}),
        cpus=1.5,
        memory_bytes=512 * MIB,
        env={"TEST_DIR": "/tests", "COLOURS": "$HOME"},
        workdir="/app",
    )
    assert task.stages == (
        replace(
            usual(folder, timeout_seconds=180.0),
            agent=AgentPhase(900.0),
            solution=script(b"#!/bin/bash\ntouch /app/done\n"),
        ),
    )
    assert task.metadata == {
        "author_name": "Ada",
        "author_email": "ada@example.org",
        "difficulty": "easy",
        "category": "file-operations",
        "tags": ["files"],
        "disable_asciinema": False,
        "junior_time_estimate_min": 5,
    }
    assert (task.needs, task.warnings) == ((), ())


def test_a_sidecar_needs_compose() -> None:
    folder = GOLDEN / "sidecar"
    task = load(folder)
    assert task.environment == Environment(
        build=Build(folder / "client"),
        compose=Compose(
            folder / "docker-compose.yaml",
            "client",
            {
                "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": "rackbench-sidecar",
                "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": "rackbench-sidecar",
                "T_BENCH_TASK_DOCKER_NAME_PREFIX": "rackbench-sidecar",
                "T_BENCH_TEST_DIR": "/tests",
            },
            keep_command=True,
        ),
    )
    assert (task.needs, task.metadata) == (("compose",), {"difficulty": 3})
    (warning,) = task.warnings
    assert warning.startswith(f"{folder}/task.yaml:3: 'run_tests_in_same_shell' does not hold")


def test_a_solution_of_typed_lines_is_a_script() -> None:
    folder = GOLDEN / "typed-solution"
    task = load(folder)
    assert task.environment == Environment(build=Build(folder))
    assert task.stages == (
        replace(
            usual(folder),
            agent=AgentPhase(60.0),
            solution=script(b"#!/bin/bash\nmkdir -p /app\ntouch /app/done\n"),
        ),
    )
    assert task.warnings == ()


def test_keys_typed_into_a_program_are_no_script() -> None:
    folder = GOLDEN / "typed-into-an-editor"
    task = load(folder)
    assert task.stages[0].solution is None
    assert task.warnings == (
        (
            f"{folder}: solution.yaml types into a running program (entry 1: 'vi /app/done'), "
            "which no script can do; the task has no reference to run"
        ),
    )


def test_a_dockerfile_alone_is_enough() -> None:
    folder = GOLDEN / "bare"
    task = load(folder)
    assert task.environment == Environment(build=Build(folder))
    content = b"#!/bin/bash\npython3 -m unittest discover /tests\n"
    stage = usual(folder, files={"run-tests.sh": content})
    assert task.stages == (replace(stage, solution=script(b"#!/bin/bash\ntouch /app/done\n")),)


def test_descriptions_line_ends_and_a_service_of_another_name() -> None:
    folder = GOLDEN / "descriptions"
    task = load(folder)
    assert task.environment == Environment(
        build=Build(folder),
        compose=Compose(folder / "docker-compose.yaml", "agent-environment"),
    )
    (stage,) = task.stages
    assert (stage.instruction, stage.agent) == ("Without a hint.", AgentPhase(1800.0))
    assert stage.verifier.files == {"run-tests.sh": b"#!/bin/bash\npytest -rA\n"}
    assert stage.solution == script(b"touch /app/done\n")
    assert task.metadata == {"author": "Ada", "difficulty": "very hard", "tier": "gold"}
    assert [line.removeprefix(f"{folder}: ") for line in task.warnings] == [
        (
            "docker-compose.yaml mounts ./tests of the task into 'agent-environment', where the "
            "agent may see it"
        ),
        "run-tests.sh has Windows line ends; it is run with Unix ones",
        "solution.sh has Windows line ends; it is run with Unix ones",
    ]


def test_an_image_that_is_there_already() -> None:
    folder = GOLDEN / "prebuilt-image"
    task = load(folder)
    assert task.environment == Environment(docker_image="rackbench/base:1")
    (stage,) = task.stages
    assert (stage.verifier.parser, stage.verifier.tests) == ("swebench", ())
    assert list(stage.verifier.files) == ["run-tests.sh"]
