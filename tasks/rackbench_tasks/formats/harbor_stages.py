"""The stages of a task in Harbor's format: its steps, or the task itself as the only one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rackbench_tasks.formats.folder import first_line, run_of, text_of, warn_of_line_ends
from rackbench_tasks.formats.harbor_environment import (
    COMPOSE_FILE,
    Reading,
    healthcheck_of,
    verifier_environment,
)
from rackbench_tasks.formats.harbor_schema import (
    RawAgent,
    RawArtifact,
    RawCollect,
    RawHealthcheck,
    RawStep,
    RawTask,
    RawVerifier,
)
from rackbench_tasks.formats.harbor_values import env_of, network_of
from rackbench_tasks.model import (
    AgentPhase,
    Artifact,
    CollectHook,
    Environment,
    Solution,
    Stage,
    VerifierPhase,
)

T = TypeVar("T")

_MAIN = "main"
_VERIFIER_SECONDS = 600.0
_IGNORE_FILE = ".harborignore"
_BY_EXIT_CODE = """\
mkdir -p /logs/verifier
echo 0 >/logs/verifier/reward.txt
if (
{command}
); then
  echo 1 >/logs/verifier/reward.txt
fi
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """A step with what it takes over from its task; or the task, which takes over nothing."""

    name: str
    at: str
    """Path of its table in `task.toml`, with a dot behind; empty for the task."""
    folders: tuple[Path, ...]
    """With its files: its own first, then the task's."""
    agents: tuple[RawAgent, ...]
    verifiers: tuple[RawVerifier, ...]
    artifacts: tuple[RawArtifact, ...]
    min_reward: dict[str, float]
    healthcheck: RawHealthcheck | None


def stages_of(raw: RawTask, environment: Environment, reading: Reading) -> tuple[Stage, ...]:
    """What is worked on, in the order in which `task.toml` lists it."""
    parts = [_step(raw, number, reading) for number in range(len(raw.steps))]
    names = [part.name.casefold() for part in parts]
    for part in parts:
        if names.count(part.name.casefold()) > 1:
            reading.about_keys.problem(
                f"two steps are called {part.name!r}; a name is a folder", key=f"{part.at}name"
            )
    artifacts = (*raw.artifacts, *raw.task.artifacts)
    whole = _Part("", "", (reading.folder,), (raw.agent,), (raw.verifier,), artifacts, {}, None)
    return tuple(_stage(raw, part, environment, reading) for part in parts or [whole])


def _step(raw: RawTask, number: int, reading: Reading) -> _Part:
    step: RawStep = raw.steps[number]
    folder = reading.folder / "steps" / step.name
    if not folder.is_dir():
        reading.about_files.problem(f"there is no folder steps/{step.name} for the step")
    return _Part(
        name=step.name,
        at=f"steps.{number}.",
        folders=(folder, reading.folder),
        agents=(step.agent, raw.agent),
        verifiers=(step.verifier, raw.verifier),
        artifacts=(*raw.artifacts, *raw.task.artifacts, *step.artifacts),
        min_reward=step.min_reward,
        healthcheck=step.healthcheck,
    )


def _stage(raw: RawTask, part: _Part, environment: Environment, reading: Reading) -> Stage:
    workdir = part.folders[0] / "workdir"
    return Stage(
        name=part.name,
        instruction=_instruction(part, reading),
        agent=_agent(part, reading),
        verifier=_verifier(part, environment, reading),
        solution=_solution(raw, part, environment, reading),
        artifacts=_artifacts(part.artifacts),
        workdir=workdir if part.name and workdir.is_dir() else None,
        healthcheck=healthcheck_of(part.healthcheck),
        min_reward=part.min_reward,
    )


def _instruction(part: _Part, reading: Reading) -> str:
    path = part.folders[0] / "instruction.md"
    if not path.parent.is_dir():
        return ""  # told already
    text = text_of(path, reading.about_files)
    if text is not None and not text.strip():
        reading.about_files.problem(
            f"{path.relative_to(reading.folder)} is empty; it has to tell the agent what to do"
        )
    return text or ""


def _agent(part: _Part, reading: Reading) -> AgentPhase:
    networks = [
        network_of(at + "agent", agent, reading.about_keys)
        for at, agent in zip((part.at, ""), part.agents, strict=False)
    ]
    return AgentPhase(
        timeout_seconds=_first(agent.timeout_sec for agent in part.agents),
        user=_first(agent.user for agent in part.agents),
        network=_first(networks),
    )


def _verifier(part: _Part, environment: Environment, reading: Reading) -> VerifierPhase:
    separate = _is_separate(part.verifiers)
    own = _own_image(part) if separate else None
    judged_in = environment
    if separate:
        config = _first(verifier.environment for verifier in part.verifiers)
        judged_in = verifier_environment(config, own, environment, reading)
    networks = [
        network_of(at + "verifier", verifier, reading.about_keys)
        for at, verifier in zip((part.at, ""), part.verifiers, strict=False)
    ]
    env: dict[str, str] = {}
    for at, verifier in reversed(list(zip((part.at, ""), part.verifiers, strict=False))):
        env |= env_of(at + "verifier", verifier.env, reading.host_env, reading.about_keys)
    return VerifierPhase(
        tests=() if own else tuple(_tests(part)),
        command=_command(part, judged_in, own, reading),
        timeout_seconds=_first(v.timeout_sec for v in part.verifiers) or _VERIFIER_SECONDS,
        env=env,
        user=_first(verifier.user for verifier in part.verifiers),
        separate=separate,
        environment=judged_in if separate else None,
        network=_first(networks),
        collect=_collect(hook for v in reversed(part.verifiers) for hook in v.collect),
    )


def _is_separate(verifiers: Sequence[RawVerifier]) -> bool:
    for verifier in verifiers:
        if verifier.environment_mode is not None:
            return verifier.environment_mode == "separate"
        if verifier.environment is not None:
            return True
    return False


def _own_image(part: _Part) -> Path | str | None:
    """The verifier's own image, by its name or the folder it is made from; None: the agent's."""
    for verifier, folder in zip(part.verifiers, part.folders, strict=True):
        if verifier.environment and verifier.environment.docker_image:
            return verifier.environment.docker_image
        tests = folder / "tests"
        if (tests / "Dockerfile").is_file() or (tests / COMPOSE_FILE).is_file():
            return tests
    return None


def _tests(part: _Part) -> list[Path]:
    """Folders of tests, the task's before the step's."""
    return [folder / "tests" for folder in reversed(part.folders) if (folder / "tests").is_dir()]


def _command(
    part: _Part, judged_in: Environment, own: Path | str | None, reading: Reading
) -> tuple[str, ...]:
    name = "test.bat" if judged_in.os == "windows" else "test.sh"
    found = [folder / "tests" / name for folder in part.folders]
    script = _first(path if path.is_file() else None for path in found)
    for folder in _tests(part):
        if (folder / _IGNORE_FILE).exists():
            reading.about_files.warning(
                f"{(folder / _IGNORE_FILE).relative_to(reading.folder)} is not read; "
                "all files are copied"
            )
    if script is None:
        return _without_script(part, own, name, reading)
    warn_of_line_ends(script, reading.folder, reading.about_files)
    if own is None:
        return run_of(script, f"/tests/{name}")
    return _within_image(script, f"/tests/{name}")


def _without_script(
    part: _Part, own: Path | str | None, name: str, reading: Reading
) -> tuple[str, ...]:
    if command := _first(verifier.command for verifier in part.verifiers):
        return ("bash", "-c", _BY_EXIT_CODE.format(command=command))
    # A separate verifier's script may be part of its image alone.
    if own is None:
        where = f"steps/{part.name}/tests/{name} or tests/{name}" if part.name else f"tests/{name}"
        reading.about_files.problem(f"there is no {where}, which has to judge the result")
    return (f"/tests/{name}",)


def _within_image(script: Path, target: str) -> tuple[str, ...]:
    """How to run a script whose copy in an image may have lost its executable bit."""
    line = first_line(script).decode(errors="replace")
    if not line.startswith("#!"):
        return ("bash", target)
    return (*line[2:].split(maxsplit=1), target)


def _solution(
    raw: RawTask, part: _Part, environment: Environment, reading: Reading
) -> Solution | None:
    env = env_of("solution", raw.solution.env, reading.host_env, reading.about_keys)
    script = "solve.bat" if environment.os == "windows" else "solve.sh"
    for folder in part.folders:
        solution = folder / "solution"
        if (solution / script).is_file():
            warn_of_line_ends(solution / script, reading.folder, reading.about_files)
            if (solution / _IGNORE_FILE).exists():
                reading.about_files.warning(
                    f"{(solution / _IGNORE_FILE).relative_to(reading.folder)} is not read; "
                    "all files are copied"
                )
            return Solution(folder=solution, script=script, env=env)
    return None


def _artifacts(raw: Iterable[RawArtifact]) -> tuple[Artifact, ...]:
    return tuple(
        Artifact(
            source=artifact.source,
            destination=artifact.destination,
            exclude=artifact.exclude,
            service=_service(artifact.service),
        )
        for artifact in raw
    )


def _collect(raw: Iterable[RawCollect]) -> tuple[CollectHook, ...]:
    return tuple(
        CollectHook(
            command=hook.command,
            service=_service(hook.service),
            timeout_seconds=hook.timeout_sec,
            user=hook.user,
        )
        for hook in raw
    )


def _service(name: str | None) -> str | None:
    return None if name == _MAIN else name


def _first(values: Iterable[T | None]) -> T | None:
    """The first that is there."""
    return next((value for value in values if value is not None), None)
