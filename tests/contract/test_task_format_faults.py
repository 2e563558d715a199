"""Task folders with a fault: each is refused, and the fault told with its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rackbench_tasks import Build, Need, Task, TaskError
from rackbench_tasks.formats import TaskFormat
from rackbench_tasks.formats.harbor import Harbor
from rackbench_tasks.formats.terminal_bench_1 import TerminalBench1

GOLDEN = Path(__file__).parents[1] / "data" / "tasks"


def load(folder: Path, task_format: TaskFormat | None = None) -> Task:
    return (task_format or Harbor()).load(folder, strict=False, host_env={})


@pytest.fixture
def harbor(tmp_path: Path) -> Path:
    """A task in Harbor's format without a fault."""
    return shutil.copytree(GOLDEN / "harbor" / "schema-1.4", tmp_path / "task")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A task of Terminal-Bench 1 without a fault."""
    return shutil.copytree(GOLDEN / "terminal-bench-1" / "single-service", tmp_path / "task")


def problems_of(folder: Path, task_format: TaskFormat | None = None) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load(folder, task_format)
    return [
        line.replace(f"{folder}/", "").replace(str(folder), ".") for line in caught.value.problems
    ]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (
            "[verifier]\ntimeout_sec = 5\n\n[verifier]\nuser = 'x'\n",
            "task.toml: is not TOML: Cannot declare ('verifier',) twice (at line 4, column 10)",
        ),
        (
            "\n[agent]\n# a limit\ntimout_sec = 5\n",
            (
                "task.toml:4: unknown key 'agent.timout_sec' is meant as a limit, and would not "
                "hold; did you mean 'timeout_sec'?"
            ),
        ),
        (
            '[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n[steps.agent]\ncpu = 1\n',
            (
                "task.toml:6: unknown key 'steps.1.agent.cpu' is meant as a limit, and would not "
                "hold; did you mean 'cpus' in [environment]?"
            ),
        ),
        (
            '[metadata]\nwhy = """\n[agent]\n"""\n[agent]\ntimeout_sec = "5"\n',
            "task.toml:6: 'agent.timeout_sec' is \"5\" (text); expected a number",
        ),
        (
            "[environment.healthcheck]\nretries = 2\n",
            "task.toml:1: 'environment.healthcheck.command' is missing",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(harbor: Path, toml: str, said: str) -> None:
    (harbor / "task.toml").write_text(toml)
    assert said in problems_of(harbor)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("/var/run/docker.sock", "mounts /var/run/docker.sock of this machine into 'main'"),
        ("../../secrets", "mounts ../../secrets of this machine into 'main'"),
        ("~/.ssh", "mounts ~/.ssh of this machine into 'main'"),
    ],
)
def test_a_mount_of_the_host_is_told_and_leaves_the_suite_usable(
    harbor: Path, source: str, said: str
) -> None:
    (harbor / "environment" / "docker-compose.yaml").write_text(
        f"services:\n  main:\n    volumes:\n      - {source}:/mnt\n"
    )
    task = load(harbor)
    assert Need.COMPOSE in task.needs
    (warning,) = (warning for warning in task.warnings if "mounts" in warning)
    assert said in warning


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("services: {}", "environment/docker-compose.yaml: has no services"),
        ("- a\n- b\n", "environment/docker-compose.yaml: has no services"),
        ("services:\n  main: yes\n", "service 'main' is true; expected a table"),
        ("services: [", "environment/docker-compose.yaml: is not YAML"),
    ],
)
def test_what_is_no_compose_file(harbor: Path, content: str, said: str) -> None:
    (harbor / "environment" / "docker-compose.yaml").write_text(content)
    (problem,) = problems_of(harbor)
    assert said in problem


def test_nothing_outside_the_task_is_built(harbor: Path) -> None:
    file = harbor / "environment" / "docker-compose.yaml"
    file.write_text("services:\n  main:\n    build: ..\n")
    assert load(harbor).environment.build == Build(harbor)
    file.write_text("services:\n  main:\n    build: ../..\n")
    (problem,) = problems_of(harbor)
    assert problem.endswith(
        f"docker-compose.yaml builds 'main' from {harbor.parent}, which is outside the task"
    )


def test_a_docker_compose_yml_is_the_tasks_own_data(harbor: Path) -> None:
    (harbor / "environment" / "docker-compose.yml").write_text("not: [compose")
    assert load(harbor).environment.compose is None


def test_a_link_out_of_the_task(harbor: Path) -> None:
    (harbor / "tests" / "passwd").symlink_to("/etc/passwd")
    (problem,) = problems_of(harbor)
    assert problem.startswith("tests/passwd: links to /etc/passwd, which is outside the task")


def test_steps_without_folders_and_with_one_name(harbor: Path) -> None:
    (harbor / "task.toml").write_text('[[steps]]\nname = "a"\n[[steps]]\nname = "A"\n')
    problems = problems_of(harbor)
    assert "task.toml:2: two steps are called 'a'; a name is a folder" in problems
    assert ".: there is no folder steps/a for the step" in problems


@pytest.mark.parametrize("name", ["../up", "a/b", "..", " ", "a\\\\b"])
def test_names_of_steps_that_are_no_folders(harbor: Path, name: str) -> None:
    (harbor / "task.toml").write_text(f'[[steps]]\nname = "{name}"\n')
    (problem,) = problems_of(harbor)
    assert problem.startswith("task.toml:2: 'steps.0.name' is ")
    assert problem.endswith("; expected the name of a folder below steps/")


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        (
            "instruction: x\n\nmax_agent_timeout: 5\n",
            (
                "task.yaml:3: unknown key 'max_agent_timeout' is meant as a limit, and would not "
                "hold; did you mean 'max_agent_timeout_sec'?"
            ),
        ),
        (
            "instruction: x\nmax_test_timeout_sec: soon\n",
            "task.yaml:2: 'max_test_timeout_sec' is \"soon\" (text); expected a number",
        ),
        (
            "instruction: x\nmax_test_timeout_sec: -1\n",
            "task.yaml:2: 'max_test_timeout_sec' is -1; expected a number above 0",
        ),
        (
            "instruction: x\nparser_name: nose\n",
            (
                "task.yaml:2: 'parser_name' is \"nose\" (text); known are mlebench, pytest, "
                "swebench, swelancer, sweperf"
            ),
        ),
        (
            "difficulty: easy\n",
            "task.yaml: 'instruction' is missing or empty; it has to tell the agent what to do",
        ),
        ("[a, b]\n", "task.yaml: is a list; expected a table"),
        ("", "task.yaml: is empty; expected a table"),
    ],
)
def test_what_is_wrong_in_task_yaml(first: Path, yaml: str, said: str) -> None:
    (first / "task.yaml").write_text(yaml)
    assert problems_of(first, TerminalBench1()) == [said]


def test_an_unknown_key_of_task_yaml_is_told_with_its_line(first: Path) -> None:
    (first / "task.yaml").write_text("instruction: x\ndifficult: easy\n")
    (warning,) = load(first, TerminalBench1()).warnings
    assert warning == (
        f"{first}/task.yaml:2: unknown key 'difficult' is ignored; did you mean 'difficulty'?"
    )


def test_a_folder_that_does_not_say_where_the_agent_works(first: Path) -> None:
    (first / "docker-compose.yaml").unlink()
    (first / "Dockerfile").unlink()
    (first / "run-tests.sh").unlink()
    assert problems_of(first, TerminalBench1()) == [
        ".: neither docker-compose.yaml nor Dockerfile; one of them has to say where the agent works",
        ".: there is no run-tests.sh, which has to judge the result",
    ]


def test_services_among_which_the_agents_is_not_clear(first: Path) -> None:
    (first / "docker-compose.yaml").write_text("services:\n  one: {image: a}\n  two: {image: b}\n")
    (problem,) = problems_of(first, TerminalBench1())
    assert problem == (
        "docker-compose.yaml: no service is called 'client', and which of one, two the agent "
        "works in is not clear; rename it"
    )


@pytest.mark.parametrize("content", ["- 5\n", "command: ls\n", "- command: [ls]\n", "- {"])
def test_a_typed_solution_that_cannot_be_read(first: Path, content: str) -> None:
    (first / "solution.sh").unlink()
    (first / "solution.yaml").write_text(content)
    (problem,) = problems_of(first, TerminalBench1())
    assert problem.startswith("solution.yaml: ")
