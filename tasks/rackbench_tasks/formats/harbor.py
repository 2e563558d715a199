"""Tasks in Harbor's format: a folder with task.toml, schema 1.0 to 1.4."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from rackbench_tasks.files import absolute, read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.folder import digest_of, task_name
from rackbench_tasks.formats.harbor_environment import Reading, environment_of
from rackbench_tasks.formats.harbor_schema import LIMITS, RawTask
from rackbench_tasks.formats.harbor_spellings import check_version, translate
from rackbench_tasks.formats.harbor_stages import stages_of
from rackbench_tasks.formats.lines import toml_lines
from rackbench_tasks.keys import unknown_keys
from rackbench_tasks.model import (
    Environment,
    Need,
    Network,
    NetworkMode,
    RewardStrategy,
    Stage,
    Task,
)
from rackbench_tasks.problem import TaskError, located_problems, shown

_FILE = "task.toml"
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


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
        raw, about_keys = _read(folder / _FILE, strict=strict)
        reading = Reading(folder, host_env, about_keys, Findings(str(folder)))
        task = _task(raw, reading)
        about_keys.raise_problems(reading.about_files.problems)
        return task


def _read(path: Path, *, strict: bool) -> tuple[RawTask, Findings]:
    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path}: is not TOML: {error}") from error
    findings = Findings(str(path), lines=toml_lines(text))
    check_version(table, findings)
    translate(table, findings)
    findings.unknown(unknown_keys(RawTask, table, limits=LIMITS), strict=strict)
    try:
        return RawTask.model_validate(table), findings
    except ValidationError as error:
        for key, problem in located_problems(error):
            findings.problem(problem, key=key)
        findings.raise_problems()
        raise


def _task(raw: RawTask, reading: Reading) -> Task:
    folder = reading.folder
    environment = environment_of(raw.environment, folder / "environment", "environment", reading)
    stages = stages_of(raw, environment, reading)
    if not (environment.docker_image or environment.build or environment.compose):
        reading.about_files.problem(
            "no environment/Dockerfile and no [environment] docker_image in its task.toml; "
            "one of them has to say where the agent works"
        )
    name, id_ = _names(raw.task.name, reading)
    return Task(
        id=id_,
        name=name,
        folder=folder,
        digest=digest_of(folder, reading.about_files),
        format=Harbor.name,
        environment=environment,
        stages=stages,
        reward_strategy=RewardStrategy(raw.multi_step_reward_strategy or "mean"),
        metadata=raw.metadata,
        needs=tuple(_needs(raw, environment, stages, folder)),
        warnings=tuple(
            dict.fromkeys((*reading.about_keys.warnings, *reading.about_files.warnings))
        ),
    )


def _names(declared: str | None, reading: Reading) -> tuple[str, str]:
    name = task_name(reading.folder, reading.about_files)
    if declared is not None and not _ID.fullmatch(declared):
        reading.about_keys.problem(
            f"'task.name' is {shown(declared)}; expected letters, digits, '.', '_' and '-', "
            'such as "org/name"',
            key="task.name",
        )
    return name, declared or name


def _needs(
    raw: RawTask, environment: Environment, stages: tuple[Stage, ...], folder: Path
) -> Iterator[Need]:
    verifiers = [stage.verifier for stage in stages]
    places = [environment, *(v.environment for v in verifiers if v.environment)]
    networks = list(_phase_networks(environment, stages))
    asked = {
        Need.COMPOSE: any(place.compose for place in places),
        Need.GPU: any(place.gpus for place in places),
        Need.TPU: raw.environment.tpu,
        Need.WINDOWS: any(place.os == "windows" for place in places),
        Need.MULTI_STEP: len(stages) > 1,
        Need.SEPARATE_VERIFIER: any(verifier.separate for verifier in verifiers),
        Need.COLLECT_HOOKS: any(verifier.collect for verifier in verifiers),
        Need.MCP: environment.mcp_servers,
        Need.SKILLS: environment.skills_dir,
        Need.ALLOWLIST: any(
            network.mode is NetworkMode.ALLOWLIST for pair in networks for network in pair
        ),
        Need.PHASE_NETWORK: any(phase != place for place, phase in networks),
        Need.TRAJECTORY: (folder / "trajectory.json").exists(),
    }
    return (need for need, is_asked in asked.items() if is_asked)


def _phase_networks(
    environment: Environment, stages: tuple[Stage, ...]
) -> Iterator[tuple[Network, Network]]:
    """The network of each place that is worked in, and of the phase there."""
    for stage in stages:
        yield environment.network, stage.agent.network or environment.network
        judged_in = stage.verifier.environment or environment
        yield judged_in.network, stage.verifier.network or judged_in.network
