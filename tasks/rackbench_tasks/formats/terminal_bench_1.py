"""Tasks in the format of Terminal-Bench 1: a folder with task.yaml and run-tests.sh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import ValidationError

from rackbench_tasks.files import absolute, read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.compose_file import ComposeFile, host_variables, read_compose
from rackbench_tasks.formats.compose_service import Service
from rackbench_tasks.formats.folder import digest_of, script_bytes, task_name, without_canary
from rackbench_tasks.formats.lines import yaml_lines
from rackbench_tasks.formats.terminal_bench_1_schema import LIMITS, METADATA, RawTask
from rackbench_tasks.formats.terminal_bench_1_solution import solution_of
from rackbench_tasks.keys import unknown_keys
from rackbench_tasks.model import (
    AgentPhase,
    Build,
    Compose,
    Environment,
    Need,
    Network,
    NetworkMode,
    Stage,
    Task,
    VerifierPhase,
)
from rackbench_tasks.problem import TaskError, located_problems, shown
from rackbench_tasks.test_results import OUTPUT_PARSERS

_FILE = "task.yaml"
_COMPOSE_FILE = "docker-compose.yaml"
_TESTS = "run-tests.sh"
_SERVICE = "client"
_AGENT_SECONDS = 360.0
_TEST_SECONDS = 60.0
_BASE = "base"
"""Key of the description that is the instruction."""


class TerminalBench1:
    """The format of Terminal-Bench 1, nothing converted on disk."""

    name: ClassVar[str] = "terminal-bench-1"

    def detect(self, folder: Path) -> bool:
        """Whether there is a task.yaml."""
        return (folder / _FILE).is_file()

    def load(self, folder: Path, *, strict: bool, host_env: Mapping[str, str]) -> Task:
        """Read a task.

        Raises TaskError with every problem found: wrong values, missing files, misspelt limits,
        with `strict` also every other unknown key.
        """
        folder = absolute(folder)
        raw, about_keys = _read(folder / _FILE, strict=strict)
        about_files = Findings(str(folder))
        task = _task(raw, folder, host_env, about_keys, about_files)
        about_keys.raise_problems(about_files.problems)
        return task


def _read(path: Path, *, strict: bool) -> tuple[RawTask, Findings]:
    text = read_text(path)
    try:
        table = yaml.safe_load(text)
        lines = yaml_lines(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TaskError(f"{path}: is not YAML: {error}") from error
    if not isinstance(table, dict):
        raise TaskError(f"{path}: is {shown(table)}; expected a table")
    findings = Findings(str(path), lines=lines)
    findings.unknown(unknown_keys(RawTask, table, limits=LIMITS), strict=strict)
    try:
        return RawTask.model_validate(table), findings
    except ValidationError as error:
        for key, problem in located_problems(error):
            findings.problem(problem, key=key)
        findings.raise_problems()
        raise


def _task(
    raw: RawTask,
    folder: Path,
    host_env: Mapping[str, str],
    about_keys: Findings,
    about_files: Findings,
) -> Task:
    name = task_name(folder, about_files)
    environment = _environment(folder, name, host_env, about_files)
    stage = Stage(
        instruction=_instruction(raw, about_keys),
        agent=AgentPhase(timeout_seconds=raw.max_agent_timeout_sec or _AGENT_SECONDS),
        verifier=_verifier(raw, folder, about_keys, about_files),
        solution=solution_of(folder, about_files),
    )
    return Task(
        id=name,
        name=name,
        folder=folder,
        digest=digest_of(folder, about_files),
        format=TerminalBench1.name,
        environment=environment,
        stages=(stage,),
        metadata={
            key: value
            for key, value in raw.model_dump(include=set(METADATA)).items()
            if value is not None
        },
        needs=(Need.COMPOSE,) if environment.compose else (),
        warnings=tuple(dict.fromkeys((*about_keys.warnings, *about_files.warnings))),
    )


def _instruction(raw: RawTask, findings: Findings) -> str:
    text = raw.instruction
    if text is None and raw.descriptions:
        keyed = {entry.key: entry.description for entry in raw.descriptions}
        text = keyed.get(_BASE, raw.descriptions[0].description)
    if text is None:
        text = raw.description
    text = without_canary(text or "")
    if not text.strip():
        findings.problem("'instruction' is missing or empty; it has to tell the agent what to do")
    return text


def _verifier(
    raw: RawTask, folder: Path, about_keys: Findings, about_files: Findings
) -> VerifierPhase:
    parser = raw.parser_name or "pytest"
    if parser not in OUTPUT_PARSERS:
        about_keys.problem(
            f"'parser_name' is {shown(parser)}; known are {', '.join(sorted(OUTPUT_PARSERS))}",
            key="parser_name",
        )
    if raw.run_tests_in_same_shell:
        about_keys.warning(
            "'run_tests_in_same_shell' does not hold: the tests run in a shell of their own",
            key="run_tests_in_same_shell",
        )
    script, tests = folder / _TESTS, folder / "tests"
    if not script.is_file():
        about_files.problem(f"there is no {_TESTS}, which has to judge the result")
    return VerifierPhase(
        tests=(tests,) if tests.is_dir() else (),
        files={_TESTS: script_bytes(script, folder, about_files)},
        command=("bash", f"/tests/{_TESTS}"),
        timeout_seconds=raw.max_test_timeout_sec or _TEST_SECONDS,
        env={"TEST_DIR": "/tests"},
        user="root",
        parser=parser,
    )


def _environment(
    folder: Path, name: str, host_env: Mapping[str, str], findings: Findings
) -> Environment:
    path = folder / _COMPOSE_FILE
    if not path.is_file():
        if not (folder / "Dockerfile").is_file():
            findings.problem(
                f"neither {_COMPOSE_FILE} nor Dockerfile; one of them has to say where the agent "
                "works"
            )
        return Environment(build=Build(folder))
    try:
        file = read_compose(path)
        chosen = _service(file)
    except TaskError as error:
        findings.problems.extend(error.problems)
        return Environment()
    variables = host_variables(file, _variables(name), host_env, findings)
    service = file.service(chosen, variables)
    environment = Environment(
        build=service.build, docker_image=None if service.build else service.image
    )
    if not (service.build or service.image):
        environment = replace(environment, build=Build(folder))
    file.check_reach(folder, variables, findings)
    if service.beyond:
        used = {key: value for key, value in variables.items() if key in file.references}
        compose = Compose(path, chosen, used, keep_command=service.has_command)
        return replace(environment, compose=compose)
    return _plain(environment, service)


def _plain(environment: Environment, service: Service) -> Environment:
    """A container without compose that is what the file's only service would be."""
    network = Network(NetworkMode.NO_NETWORK if service.no_network else NetworkMode.PUBLIC)
    return replace(
        environment,
        cpus=service.cpus,
        memory_bytes=service.memory_bytes,
        env=service.env,
        workdir=service.workdir,
        network=network,
    )


def _service(file: ComposeFile) -> str:
    """The service that the agent works in: `client`, or what can only be meant."""
    built = [name for name, table in file.services.items() if _is_built_here(table)]
    named = [name for name in file.services if "agent" in name.lower()]
    if _SERVICE in file.services:
        return _SERVICE
    for candidates in (list(file.services), built, named):
        if len(candidates) == 1:
            return candidates[0]
    raise TaskError(
        f"{file.path}: no service is called {_SERVICE!r}, and which of "
        f"{', '.join(file.services)} the agent works in is not clear; rename it"
    )


def _is_built_here(table: Mapping[str, Any]) -> bool:
    build = table.get("build")
    context = build.get("context", ".") if isinstance(build, dict) else build
    return context in (".", "./")


def _variables(name: str) -> dict[str, str]:
    """What the files interpolate. Logs stay within the containers; names are the runner's."""
    prefix = f"rackbench-{name.lower()}"
    return {
        "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": prefix,
        "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": prefix,
        "T_BENCH_TASK_DOCKER_NAME_PREFIX": prefix,
        "T_BENCH_TEST_DIR": "/tests",
        "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
        "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
        "T_BENCH_TASK_LOGS_PATH": "/logs",
        "T_BENCH_TASK_AGENT_LOGS_PATH": "/agent-logs",
    }
