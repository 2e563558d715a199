"""Where the agent, or a separate verifier, works: from `task.toml` and the folder beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.compose_file import ComposeFile, host_variables, read_compose
from rackbench_tasks.formats.compose_service import Service
from rackbench_tasks.formats.harbor_schema import RawEnvironment, RawHealthcheck
from rackbench_tasks.formats.harbor_values import (
    MEGABYTE,
    env_of,
    environment_network,
    size_bytes,
)
from rackbench_tasks.model import (
    Build,
    Compose,
    Environment,
    Healthcheck,
    Network,
    NetworkMode,
)
from rackbench_tasks.problem import TaskError

COMPOSE_FILE = "docker-compose.yaml"
_SERVICE = "main"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is at hand while a task is read."""

    folder: Path
    """Of the task."""
    host_env: Mapping[str, str]
    about_keys: Findings
    about_files: Findings


def environment_of(raw: RawEnvironment, context: Path, at: str, reading: Reading) -> Environment:
    """An environment, of which `context` holds the Dockerfile or the compose file.

    `at` is the table's path in `task.toml`.
    """
    return _with_files(_declared(raw, at, reading), context, reading)


def _declared(raw: RawEnvironment, at: str, reading: Reading) -> Environment:
    keys = reading.about_keys
    return Environment(
        docker_image=raw.docker_image,
        build_timeout_seconds=raw.build_timeout_sec,
        cpus=raw.cpus,
        memory_bytes=size_bytes(f"{at}.memory", raw.memory_mb, raw.memory, keys),
        storage_bytes=size_bytes(f"{at}.storage", raw.storage_mb, raw.storage, keys),
        gpus=raw.gpus,
        gpu_types=raw.gpu_types,
        env=env_of(at, raw.env, reading.host_env, keys),
        workdir=raw.workdir,
        healthcheck=healthcheck_of(raw.healthcheck),
        network=environment_network(at, raw, keys),
        os=raw.os,
        mcp_servers=tuple(server.model_dump(exclude_none=True) for server in raw.mcp_servers),
        skills_dir=raw.skills_dir,
    )


def _with_files(declared: Environment, context: Path, reading: Reading) -> Environment:
    if (context / "Dockerfile").is_file():
        declared = replace(declared, build=Build(context))
    if not (context / COMPOSE_FILE).is_file():
        return declared
    try:
        file = read_compose(context / COMPOSE_FILE)
    except TaskError as error:
        reading.about_files.problems.extend(error.problems)
        return declared
    return _with_compose(declared, file, reading)


def healthcheck_of(raw: RawHealthcheck | None) -> Healthcheck | None:
    """A healthcheck, where there is one."""
    if raw is None:
        return None
    return Healthcheck(
        command=raw.command,
        interval_seconds=raw.interval_sec,
        timeout_seconds=raw.timeout_sec,
        start_period_seconds=raw.start_period_sec,
        start_interval_seconds=raw.start_interval_sec,
        retries=raw.retries,
    )


def verifier_environment(
    raw: RawEnvironment | None, own: Path | str | None, agent: Environment, reading: Reading
) -> Environment:
    """A separate verifier's environment; what bounds it is the agent's where it says nothing.

    `own` is the folder that its image is made from, or the name of its image; None: the agent's.
    """
    declared = replace(agent, healthcheck=agent.healthcheck if own is None else None)
    if raw is not None:
        declared = _declared(raw, "verifier.environment", reading)
        declared = replace(
            declared,
            cpus=declared.cpus or agent.cpus,
            memory_bytes=declared.memory_bytes or agent.memory_bytes,
            storage_bytes=declared.storage_bytes or agent.storage_bytes,
            os=declared.os if "os" in raw.model_fields_set else agent.os,
        )
    image = own if isinstance(own, str) else None
    declared = replace(
        declared, docker_image=image, build=None, compose=None, mcp_servers=(), skills_dir=None
    )
    if own is None:
        return replace(
            declared, build=agent.build, docker_image=agent.docker_image, compose=agent.compose
        )
    return _with_files(declared, own, reading) if isinstance(own, Path) else declared


def _with_compose(declared: Environment, file: ComposeFile, reading: Reading) -> Environment:
    variables = _variables(declared, file, reading)
    service = file.service(_SERVICE, variables)
    file.check_reach(reading.folder, variables, reading.about_files)
    build = service.build or declared.build
    environment = replace(
        declared,
        build=build,
        docker_image=declared.docker_image or (None if build else service.image),
    )
    if service.no_network:
        environment = replace(environment, network=Network(NetworkMode.NO_NETWORK))
    if service.beyond:
        used = {name: value for name, value in variables.items() if name in file.references}
        return replace(environment, compose=Compose(file.path, _SERVICE, used))
    return _plain(environment, service)


def _plain(environment: Environment, service: Service) -> Environment:
    """A container without compose that is what the file's only service would be."""
    return replace(
        environment,
        env={**service.env, **environment.env},
        workdir=environment.workdir or service.workdir,
        cpus=environment.cpus or service.cpus,
        memory_bytes=environment.memory_bytes or service.memory_bytes,
    )


def _variables(declared: Environment, file: ComposeFile, reading: Reading) -> dict[str, str]:
    """What Harbor's compose files interpolate; of the host, only what the file names."""
    known = {
        "CONTEXT_DIR": str(file.path.parent),
        "MAIN_IMAGE_NAME": "rackbench-main",
        "PREBUILT_IMAGE_NAME": declared.docker_image or "",
        "TEST_DIR": "/tests",
        "CPUS": f"{declared.cpus or 1:g}",
        "MEMORY": f"{(declared.memory_bytes or 2048 * MEGABYTE) // MEGABYTE}M",
    }
    for side in ("HOST", "ENV"):
        known[f"{side}_AGENT_LOGS_PATH"] = "/logs/agent"
        known[f"{side}_VERIFIER_LOGS_PATH"] = "/logs/verifier"
        known[f"{side}_ARTIFACTS_PATH"] = "/logs/artifacts"
    return host_variables(file, known, reading.host_env, reading.about_files)
