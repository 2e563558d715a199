"""`task.toml` as written: every key of schema 1.0 to 1.4, old spellings among them.

Unknown keys are reported by `unknown_keys`, so the models themselves let them pass.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, StrictBool

from rackbench_tasks.keys import Limits

SCHEMA_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
LATEST = SCHEMA_VERSIONS[-1]

LIMITS = Limits(
    keys=frozenset(
        {
            "allow_internet",
            "allowed_hosts",
            "build_timeout_sec",
            "cpus",
            "gpus",
            "memory",
            "memory_mb",
            "network_mode",
            "storage",
            "storage_mb",
            "timeout_sec",
        }
    ),
    words=frozenset(
        {
            "cpu",
            "cpus",
            "deadline",
            "disk",
            "gpu",
            "gpus",
            "internet",
            "limit",
            "limits",
            "mem",
            "memory",
            "network",
            "ram",
            "storage",
            "timeout",
            "timeouts",
            "tpu",
        }
    ),
)


def _name_of_user(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    return value


def _source_alone(value: object) -> object:
    return {"source": value} if isinstance(value, str) else value


def _current_transport(value: object) -> object:
    return "streamable-http" if value == "http" else value


def _reward_alone(value: object) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"reward": value}
    return value


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _absolute(value: object) -> object:
    if isinstance(value, str) and not value.startswith("/"):
        raise ValueError("an absolute path")
    return value


def _folder_name(value: object) -> object:
    if isinstance(value, str) and not _FOLDER_NAME.fullmatch(value):
        raise ValueError("the name of a folder below steps/")
    return value


_FOLDER_NAME = re.compile(r"(?!\.{0,2}$)[^/\\\x00-\x1f\x7f]*[^/\\\x00-\x1f\x7f\s]")

Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Count = Annotated[int, Strict(), Field(ge=0)]
Megabytes = Annotated[int, Strict(), Field(gt=0)]
Text = Annotated[str, Field(min_length=1)]
User = Annotated[Text, BeforeValidator(_name_of_user)]


class _Raw(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RawAuthor(_Raw):
    """One of `[[task.authors]]`."""

    name: str
    email: str | None = None


class RawArtifact(_Raw):
    """One of `artifacts`; a path alone is its source."""

    source: Text
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: str | None = None


Artifacts = tuple[Annotated[RawArtifact, BeforeValidator(_source_alone)], ...]


class RawPackage(_Raw):
    """`[task]`."""

    name: str | None = None
    version: str | None = None
    description: str = ""
    authors: tuple[RawAuthor, ...] = ()
    keywords: tuple[str, ...] = ()
    artifacts: Artifacts = ()


class RawPhaseNetwork(_Raw):
    """Network keys, which environment, agent and verifier share."""

    network_mode: Literal["public", "no-network", "allowlist"] | None = None
    allowed_hosts: tuple[str, ...] = ()


class RawHealthcheck(_Raw):
    """`[environment.healthcheck]`."""

    command: Text
    interval_sec: NotNegative = 5.0
    timeout_sec: Positive = 30.0
    start_period_sec: NotNegative = 0.0
    start_interval_sec: NotNegative = 5.0
    retries: Annotated[int, Strict(), Field(ge=1)] = 3


class RawMcpServer(_Raw):
    """One of `[[environment.mcp_servers]]`."""

    name: Text
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http"], BeforeValidator(_current_transport)
    ] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: dict[str, str] = Field(default_factory=dict)


class RawTpu(_Raw):
    """`[environment.tpu]`."""

    type: str
    topology: str | None = None


class RawEnvironment(RawPhaseNetwork):
    """`[environment]` and `[verifier.environment]`."""

    docker_image: Text | None = None
    build_timeout_sec: Positive = 600.0
    os: Annotated[Literal["linux", "windows"], BeforeValidator(_lower_case)] = "linux"
    cpus: Positive | None = None
    memory_mb: Megabytes | None = None
    memory: str | None = None
    storage_mb: Megabytes | None = None
    storage: str | None = None
    gpus: Count = 0
    gpu_types: tuple[str, ...] = ()
    tpu: RawTpu | None = None
    allow_internet: StrictBool | None = None
    env: dict[str, str] = Field(default_factory=dict)
    workdir: Annotated[Text, BeforeValidator(_absolute)] | None = None
    skills_dir: str | None = None
    mcp_servers: tuple[RawMcpServer, ...] = ()
    healthcheck: RawHealthcheck | None = None


class RawAgent(RawPhaseNetwork):
    """`[agent]`."""

    timeout_sec: Positive | None = None
    user: User | None = None


class RawCollect(_Raw):
    """One of `[[verifier.collect]]`."""

    command: Text
    service: str = "main"
    timeout_sec: Positive = 60.0
    user: User | None = None


class RawVerifier(RawPhaseNetwork):
    """`[verifier]`."""

    timeout_sec: Positive | None = None
    command: Text | None = None
    env: dict[str, str] = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: RawEnvironment | None = None
    collect: tuple[RawCollect, ...] = ()


class RawSolution(_Raw):
    """`[solution]`."""

    env: dict[str, str] = Field(default_factory=dict)


class RawStep(_Raw):
    """One of `[[steps]]`."""

    name: Annotated[Text, BeforeValidator(_folder_name)]
    agent: RawAgent = RawAgent()
    verifier: RawVerifier = RawVerifier()
    min_reward: Annotated[dict[str, Number], BeforeValidator(_reward_alone)] = Field(
        default_factory=dict
    )
    healthcheck: RawHealthcheck | None = None
    artifacts: Artifacts = ()


class RawTask(_Raw):
    """A whole `task.toml`."""

    schema_version: str = LATEST
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: Artifacts = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    task: RawPackage = RawPackage()
    agent: RawAgent = RawAgent()
    verifier: RawVerifier = RawVerifier()
    environment: RawEnvironment = RawEnvironment()
    solution: RawSolution = RawSolution()
    steps: tuple[RawStep, ...] = ()
