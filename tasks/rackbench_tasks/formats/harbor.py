"""Tasks in Harbor's format: a folder with task.toml, schema 1.0 to 1.4."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from rackbench_tasks.digest import task_digest
from rackbench_tasks.files import absolute, read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.harbor_schema import LATEST, LIMITS, SCHEMA_VERSIONS, RawTask
from rackbench_tasks.formats.harbor_values import env_of, environment_of, network_of
from rackbench_tasks.keys import unknown_keys
from rackbench_tasks.model import (
    AgentPhase,
    Artifact,
    Environment,
    Need,
    Network,
    NetworkMode,
    Solution,
    Task,
    VerifierPhase,
)
from rackbench_tasks.problem import TaskError, schema_problems, shown

_FILE = "task.toml"
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_CANARY = re.compile(
    # A heading about canaries is the author's; a line that carries the marker's GUID is not.
    r"\s*(?:<!--(?:(?!-->).)*?canary(?:(?!-->).)*-->|#[^\n]*\bcanary guid\b[^\n]*)[^\S\n]*(?:\n|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_IGNORE_FILE = ".harborignore"


class Harbor:
    """Harbor's task format, Terminal-Bench's since its version 2."""

    name: ClassVar[str] = "harbor"

    def detect(self, folder: Path) -> bool:
        """Whether there is a task.toml."""
        return (folder / _FILE).is_file()

    def load(self, folder: Path, *, strict: bool, host_env: Mapping[str, str]) -> Task:
        """Read a task.

        Raises TaskError with every problem found: wrong values, missing files, misspelt limits,
        with `strict` also every other unknown key.
        """
        folder = absolute(folder)
        about_keys = Findings(str(folder / _FILE))
        about_files = Findings(str(folder))
        raw = _read(folder / _FILE, about_keys, strict=strict)
        task = _task(raw, folder, host_env, about_keys, about_files)
        about_keys.raise_problems(about_files.problems)
        return task


def _read(path: Path, findings: Findings, *, strict: bool) -> RawTask:
    try:
        table = tomllib.loads(read_text(path))
    except TaskError:
        raise
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path}: is not TOML: {error}") from error
    _check_version(table, path)
    if old := table.pop("version", None):
        current = table.setdefault("schema_version", old)
        if old != current:
            findings.warning(f"'version' is ignored beside 'schema_version' \"{current}\"")
    findings.unknown(unknown_keys(RawTask, table, limits=LIMITS), strict=strict)
    try:
        return RawTask.model_validate(table)
    except ValidationError as error:
        for problem in schema_problems(error):
            findings.problem(problem)
        findings.raise_problems()
        raise


def _check_version(table: Mapping[str, Any], path: Path) -> None:
    """Refuse a version of its own right: below it every other complaint would be noise."""
    key = "version" if "schema_version" not in table and "version" in table else "schema_version"
    found = table.get(key, LATEST)
    if found not in SCHEMA_VERSIONS:
        known = ", ".join(f'"{version}"' for version in SCHEMA_VERSIONS)
        raise TaskError(f"{path}: {key!r} is {shown(found)}; known are {known}")


def _task(
    raw: RawTask,
    folder: Path,
    host_env: Mapping[str, str],
    about_keys: Findings,
    about_files: Findings,
) -> Task:
    environment = environment_of(raw.environment, folder, host_env, about_keys)
    agent = AgentPhase(
        timeout_seconds=raw.agent.timeout_sec,
        user=raw.agent.user,
        network=network_of("agent", raw.agent, about_keys),
    )
    verifier = VerifierPhase(
        tests=folder / "tests",
        timeout_seconds=raw.verifier.timeout_sec,
        env=env_of("verifier", raw.verifier.env, host_env, about_keys),
        user=raw.verifier.user,
        separate=raw.verifier.environment_mode == "separate"
        or raw.verifier.environment is not None,
        network=network_of("verifier", raw.verifier, about_keys),
    )
    needs = tuple(_needs(raw, folder, environment, (agent.network, verifier.network)))
    name, id_ = _names(raw.task.name, folder, about_keys, about_files)
    _check_files(raw, environment, verifier, about_files)
    return Task(
        id=id_,
        name=name,
        folder=folder,
        digest=_digest(folder, about_files),
        format=Harbor.name,
        instruction=_instruction(folder, about_files, required=Need.MULTI_STEP not in needs),
        environment=environment,
        agent=agent,
        verifier=verifier,
        solution=_solution(raw, folder, host_env, about_keys),
        artifacts=tuple(Artifact(**artifact.model_dump()) for artifact in raw.artifacts),
        metadata=raw.metadata,
        needs=needs,
        warnings=(*about_keys.warnings, *about_files.warnings),
    )


def _names(
    declared: str | None, folder: Path, about_keys: Findings, about_files: Findings
) -> tuple[str, str]:
    name = _UNSAFE.sub("-", folder.name).strip("-.")
    if not name:
        about_files.problem("no letter or digit in the folder's name is left for a task's name")
    if declared is not None and not _ID.fullmatch(declared):
        about_keys.problem(
            f"'task.name' is {shown(declared)}; expected letters, digits, '.', '_' and '-', "
            'such as "org/name"'
        )
    return name, declared or name


def _needs(
    raw: RawTask, folder: Path, environment: Environment, phases: tuple[Network | None, ...]
) -> Iterator[Need]:
    networks = [environment.network, *(network for network in phases if network)]
    asked = {
        Need.COMPOSE: environment.compose_file,
        Need.GPU: environment.gpus,
        Need.TPU: raw.environment.tpu,
        Need.WINDOWS: environment.os == "windows",
        Need.MULTI_STEP: raw.steps,
        Need.SEPARATE_VERIFIER: raw.verifier.environment_mode == "separate"
        or raw.verifier.environment,
        Need.COLLECT_HOOKS: raw.verifier.collect,
        Need.MCP: environment.mcp_servers,
        Need.SKILLS: environment.skills_dir,
        Need.ALLOWLIST: any(network.mode is NetworkMode.ALLOWLIST for network in networks),
        Need.PHASE_NETWORK: any(network != environment.network for network in networks),
        Need.TRAJECTORY: (folder / "trajectory.json").exists(),
    }
    return (need for need, is_asked in asked.items() if is_asked)


def _check_files(
    raw: RawTask, environment: Environment, verifier: VerifierPhase, findings: Findings
) -> None:
    if not (environment.docker_image or environment.dockerfile_context or environment.compose_file):
        findings.problem(
            "no environment/Dockerfile and no [environment] docker_image in its task.toml; "
            "one of them has to say where the agent works"
        )
    script = "test.bat" if environment.os == "windows" else "test.sh"
    # Steps bring tests of their own; a separate verifier's may be part of its image.
    if not (verifier.tests / script).is_file() and not raw.steps and not verifier.separate:
        findings.problem(f"there is no tests/{script}, which has to judge the result")
    for path in (verifier.tests / "test.sh", verifier.tests.parent / "solution" / "solve.sh"):
        if path.is_file() and _has_windows_line_ends(path):
            findings.warning(
                f"{path.parent.name}/{path.name} has Windows line ends; Linux will not run it"
            )
        if (path.parent / _IGNORE_FILE).exists():
            findings.warning(f"{path.parent.name}/{_IGNORE_FILE} is not read; all files are copied")


def _has_windows_line_ends(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.readline(4096).endswith(b"\r\n")
    except OSError:
        return False  # the digest, which reads every file, reports it


def _digest(folder: Path, findings: Findings) -> str:
    try:
        return task_digest(folder)
    except TaskError as error:
        findings.problems.extend(error.problems)
        return ""


def _instruction(folder: Path, findings: Findings, *, required: bool) -> str:
    path = folder / "instruction.md"
    if not required and not path.exists():
        return ""
    try:
        text = without_canary(read_text(path))
    except TaskError as error:
        findings.problems.extend(error.problems)
        return ""
    if required and not text.strip():
        findings.problem("instruction.md is empty; it has to tell the agent what to do")
    return text


def without_canary(text: str) -> str:
    """An instruction without the markers at its top that tell trainers to leave it out."""
    start = 0
    while match := _CANARY.match(text, start):
        start = match.end()
    return text[start:].lstrip("\n") if start else text


def _solution(
    raw: RawTask, folder: Path, host_env: Mapping[str, str], findings: Findings
) -> Solution | None:
    solution = folder / "solution"
    script = "solve.bat" if raw.environment.os == "windows" else "solve.sh"
    env = env_of("solution", raw.solution.env, host_env, findings)
    return Solution(solution, env) if (solution / script).is_file() else None
