"""The keys of a task.toml, schema 1.0 to 1.4, as Harbor's own models define them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Mode = Literal["public", "no-network", "allowlist"]


class Part(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Info(Part):
    """`[task]`."""

    name: str | None = None
    version: str | None = None
    description: str = ""
    authors: tuple[dict[str, Any], ...] = ()
    keywords: tuple[str, ...] = ()


class Agent(Part):
    """`[agent]`."""

    timeout_sec: Seconds | None = None
    user: str | int | None = None
    network_mode: Mode | None = None
    allowed_hosts: tuple[str, ...] | None = None


class Health(Part):
    """`[environment.healthcheck]`."""

    command: str
    interval_sec: Seconds = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Annotated[float, Field(ge=0)] = 0.0
    start_interval_sec: Seconds = 5.0
    retries: Annotated[int, Field(ge=1)] = 3


class Env(Part):
    """`[environment]`, and `[verifier.environment]`."""

    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    storage_mb: Annotated[int, Field(gt=0)] | None = None
    gpus: Annotated[int, Field(ge=0)] = 0
    gpu_types: tuple[str, ...] | None = None
    tpu: dict[str, Any] | None = None
    network_mode: Mode = "public"
    allowed_hosts: tuple[str, ...] = ()
    mcp_servers: tuple[dict[str, Any], ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    workdir: str | None = None
    healthcheck: Health | None = None


class Verifier(Part):
    """`[verifier]`."""

    timeout_sec: Seconds = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    user: str | int | None = None
    network_mode: Mode | None = None
    allowed_hosts: tuple[str, ...] | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Env | None = None
    collect: tuple[dict[str, Any], ...] = ()


class SolutionTable(Part):
    """`[solution]`."""

    env: dict[str, str] = Field(default_factory=dict)


class TaskFile(Part):
    """A whole task.toml; `metadata` is free."""

    schema_version: str = "1.4"
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: tuple[str | dict[str, Any], ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    task: Info = Info()
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    environment: Env = Env()
    solution: SolutionTable = SolutionTable()
    steps: tuple[dict[str, Any], ...] = ()
