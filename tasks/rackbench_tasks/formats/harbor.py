"""Tasks in Harbor's format: Terminal-Bench 2 and later, and what teams write."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rackbench_tasks.digest import folder_digest
from rackbench_tasks.formats.harbor_schema import TaskFile
from rackbench_tasks.model import (
    AgentPhase,
    Environment,
    Healthcheck,
    Network,
    NetworkMode,
    Solution,
    Task,
    TaskError,
    VerifierPhase,
)

_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
_MEGABYTE = 1024 * 1024
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_SIZE_MEGABYTES = {"K": 1 / 1024, "": 1 / _MEGABYTE, "M": 1, "G": 1024, "T": 1024 * 1024}
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_CANARY = re.compile(
    r"\A(?:\s*<!--(?:(?!-->).)*canary(?:(?!-->).)*-->\s*\n?)+", re.IGNORECASE | re.DOTALL
)
# A key that almost says one of these was meant to limit something; ignoring it lifts the limit.
_LIMITS = frozenset(
    [
        "timeout_sec",
        "build_timeout_sec",
        "cpus",
        "memory_mb",
        "storage_mb",
        "gpus",
        "network_mode",
        "allowed_hosts",
    ]
)


class Harbor:
    """The task format `harbor`."""

    name = "harbor"

    def detect(self, folder: Path) -> bool:
        """A folder with a task.toml."""
        return (folder / "task.toml").is_file()

    def load(self, folder: Path, *, strict: bool, host_env: Mapping[str, str]) -> Task:
        """Read a task, strictly.

        Raises TaskError with every problem at once.
        """
        values = _read_toml(folder / "task.toml")
        _use_present_names(values)
        warnings, problems = _unknown_keys(values, folder)
        if problems or (strict and warnings):
            raise TaskError(*problems, *(warnings if strict else ()))
        _drop_unknown(TaskFile, values)
        file = _validate(values, folder)
        return _task(folder, file, host_env, tuple(warnings))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaskError(f"{path}: {error}") from error


def _use_present_names(values: dict[str, Any]) -> None:
    """Earlier schemas' names for the same things."""
    if "version" in values:
        values.setdefault("schema_version", str(values.pop("version")))
    environment = values.get("environment")
    verifier = values.get("verifier")
    tables = [environment, verifier.get("environment") if isinstance(verifier, dict) else None]
    for table in tables:
        if not isinstance(table, dict):
            continue
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if isinstance(table.get(old), str) and (size := _SIZE.fullmatch(table[old].strip())):
                megabytes = float(size[1]) * _SIZE_MEGABYTES[size[2].upper()]
                del table[old]
                table.setdefault(new, int(megabytes))
        if isinstance(table.get("allow_internet"), bool):
            mode = "public" if table.pop("allow_internet") else "no-network"
            table.setdefault("network_mode", mode)


def _unknown_keys(values: Mapping[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    """Warnings, and the near misses of limits that must not pass as «no limit»."""
    warnings: list[str] = []
    problems: list[str] = []
    for path, key, known in _walk(TaskFile, values, ""):
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        line = f"{folder}/task.toml: unknown key {path + key!r}{hint}"
        (problems if near and near[0] in _LIMITS else warnings).append(line)
    return warnings, problems


def _walk(
    model: type[BaseModel], values: Mapping[str, Any], path: str
) -> list[tuple[str, str, list[str]]]:
    found = []
    for key, value in values.items():
        field = model.model_fields.get(key)
        if field is None:
            found.append((path, key, sorted(model.model_fields)))
        elif isinstance(value, dict) and (inner := _model_in(field.annotation)):
            found += _walk(inner, value, f"{path}{key}.")
    return found


def _drop_unknown(model: type[BaseModel], values: dict[str, Any]) -> None:
    for key in list(values):
        field = model.model_fields.get(key)
        if field is None:
            del values[key]
        elif isinstance(values[key], dict) and (inner := _model_in(field.annotation)):
            _drop_unknown(inner, values[key])


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(
        (found for a in getattr(annotation, "__args__", ()) if (found := _model_in(a))), None
    )


def _validate(values: Mapping[str, Any], folder: Path) -> TaskFile:
    version = str(values.get("schema_version", _VERSIONS[-1]))
    if version not in _VERSIONS:
        raise TaskError(
            f"{folder}/task.toml: schema_version {version!r} is not known; "
            f"known are {', '.join(_VERSIONS)}"
        )
    try:
        return TaskFile.model_validate({**values, "schema_version": version})
    except ValidationError as error:
        raise TaskError(
            *(
                f"{folder}/task.toml: {'.'.join(map(str, line['loc']))}: {line['msg']} "
                f"(got {str(line['input'])[:80]!r})"
                for line in error.errors()
            )
        ) from error


def _task(
    folder: Path, file: TaskFile, host_env: Mapping[str, str], warnings: tuple[str, ...]
) -> Task:
    task_id = file.task.name or folder.name
    problems = [] if _SAFE_ID.fullmatch(task_id) else [f"{folder}: id {task_id!r} is not safe"]
    instruction = _instruction(folder, multi_step=bool(file.steps), problems=problems)
    tests = folder / "tests"
    if not (tests / "test.sh").is_file() and not file.steps:
        problems.append(f"{folder}: there is no tests/test.sh")
    environment = _environment(folder, file, host_env, problems)
    verifier_env = _resolved(file.verifier.env, host_env, f"{folder}: verifier.env", problems)
    solution_env = _resolved(file.solution.env, host_env, f"{folder}: solution.env", problems)
    if problems:
        raise TaskError(*problems)
    solve = folder / "solution" / "solve.sh"
    return Task(
        id=task_id,
        folder=folder,
        digest=folder_digest(folder),
        format="harbor",
        instruction=instruction,
        environment=environment,
        agent=AgentPhase(file.agent.timeout_sec, _user(file.agent.user)),
        verifier=VerifierPhase(
            tests, file.verifier.timeout_sec, verifier_env, _user(file.verifier.user)
        ),
        solution=Solution(solve.parent, solution_env) if solve.is_file() else None,
        needs=_needs(folder, file),
        metadata=file.metadata,
        warnings=warnings,
    )


def _instruction(folder: Path, *, multi_step: bool, problems: list[str]) -> str:
    path = folder / "instruction.md"
    try:
        text = _CANARY.sub("", path.read_text(encoding="utf-8")).strip()
    except FileNotFoundError:
        text = ""
        if not multi_step:
            problems.append(f"{folder}: there is no instruction.md")
        return text
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: {error}")
        return ""
    if not text and not multi_step:
        problems.append(f"{path} is empty")
    return text


def _environment(
    folder: Path, file: TaskFile, host_env: Mapping[str, str], problems: list[str]
) -> Environment:
    table, context = file.environment, folder / "environment"
    has_dockerfile = (context / "Dockerfile").is_file()
    has_compose = _compose(folder) is not None
    if not table.docker_image and not has_dockerfile and not has_compose:
        problems.append(
            f"{folder}: there is no environment/Dockerfile, and no docker_image in [environment]"
        )
    health = table.healthcheck
    return Environment(
        dockerfile_context=context if has_dockerfile and not table.docker_image else None,
        docker_image=table.docker_image,
        build_timeout_seconds=table.build_timeout_sec,
        cpus=table.cpus,
        memory_bytes=table.memory_mb * _MEGABYTE if table.memory_mb else None,
        storage_bytes=table.storage_mb * _MEGABYTE if table.storage_mb else None,
        gpus=table.gpus,
        env=_resolved(table.env, host_env, f"{folder}: environment.env", problems),
        workdir=table.workdir,
        healthcheck=Healthcheck(
            health.command,
            health.interval_sec,
            health.timeout_sec,
            health.start_period_sec,
            health.start_interval_sec,
            health.retries,
        )
        if health
        else None,
        network=Network(NetworkMode(table.network_mode), table.allowed_hosts),
    )


def _resolved(
    env: Mapping[str, str], host_env: Mapping[str, str], where: str, problems: list[str]
) -> dict[str, str]:
    """`${VAR}` and `${VAR:-default}` from the host; a variable that is not set is a problem."""

    def value_of(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name in host_env:
            return host_env[name]
        if default is None:
            problems.append(f"{where}: the variable {name} is not set on this machine")
        return default or ""

    return {key: _VARIABLE.sub(value_of, value) for key, value in env.items()}


def _needs(folder: Path, file: TaskFile) -> tuple[str, ...]:
    table, verifier = file.environment, file.verifier
    separate = verifier.environment_mode == "separate" or verifier.environment is not None
    phases = (file.agent.network_mode, verifier.network_mode)
    found = {
        "compose": _compose(folder) is not None,
        "gpu": table.gpus > 0,
        "tpu": table.tpu is not None,
        "windows": table.os == "windows",
        "separate-verifier": separate,
        "multi-step": bool(file.steps),
        "allowlist": "allowlist" in (table.network_mode, *phases),
        "per-phase network": any(mode not in (None, table.network_mode) for mode in phases),
        "collect hooks": bool(verifier.collect),
    }
    return tuple(need for need, there in found.items() if there)


def _compose(folder: Path) -> Path | None:
    names = ("docker-compose.yaml", "docker-compose.yml")
    return next((p for n in names if (p := folder / "environment" / n).is_file()), None)


def _user(user: str | int | None) -> str | None:
    return None if user is None else str(user)
