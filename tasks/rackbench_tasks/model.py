"""A task, whatever format it was written in: what the runner needs to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class NetworkMode(StrEnum):
    """What a sandbox may reach, beside the model."""

    PUBLIC = "public"
    NO_NETWORK = "no-network"
    ALLOWLIST = "allowlist"


class Need(StrEnum):
    """What a task asks for beyond one Linux container whose verifier runs in it."""

    COMPOSE = "compose"
    GPU = "gpu"
    TPU = "tpu"
    WINDOWS = "windows"
    MULTI_STEP = "multi-step"
    SEPARATE_VERIFIER = "separate-verifier"
    COLLECT_HOOKS = "collect-hooks"
    MCP = "mcp"
    SKILLS = "skills"
    ALLOWLIST = "allowlist"
    PHASE_NETWORK = "phase-network"
    """The agent's or the verifier's network differs from the environment's."""
    TRAJECTORY = "trajectory"
    """The agent is to continue an earlier session."""


@dataclass(frozen=True, slots=True)
class Network:
    """A sandbox's access to the world."""

    mode: NetworkMode = NetworkMode.PUBLIC
    allowed_hosts: tuple[str, ...] = ()
    """Host names, `*.suffix`, addresses and CIDRs; only with the mode `allowlist`."""


@dataclass(frozen=True, slots=True)
class Healthcheck:
    """How to see that the environment is ready for the agent."""

    command: str
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0
    start_period_seconds: float = 0.0
    """Failures this early do not count."""
    start_interval_seconds: float = 5.0
    retries: int = 3
    """Failures in a row after which the environment counts as broken."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the agent works. A limit that is None is the runner's to choose."""

    dockerfile_context: Path | None = None
    """Folder with the Dockerfile; `docker_image` goes first where both are there."""
    docker_image: str | None = None
    build_timeout_seconds: float = 600.0
    cpus: float | None = None
    memory_bytes: int | None = None
    storage_bytes: int | None = None
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Resolved: secrets of the host may be among the values."""
    workdir: str | None = None
    """Absolute; None is the image's own."""
    healthcheck: Healthcheck | None = None
    network: Network = Network()
    compose_file: Path | None = None
    os: str = "linux"
    mcp_servers: tuple[Mapping[str, object], ...] = ()
    """As written, `${VAR}` unresolved."""
    skills_dir: str | None = None


@dataclass(frozen=True, slots=True)
class AgentPhase:
    """Bounds of the agent's work."""

    timeout_seconds: float | None = None
    """None: the task sets no limit of its own."""
    user: str | None = None
    """Name or number; None is the image's own."""
    network: Network | None = None
    """None: as the environment."""


@dataclass(frozen=True, slots=True)
class VerifierPhase:
    """How the result is judged."""

    tests: Path
    """Folder with test.sh; copied to /tests once the agent has ended."""
    timeout_seconds: float = 600.0
    env: Mapping[str, str] = field(default_factory=dict)
    """Resolved: secrets of the host may be among the values."""
    user: str | None = None
    separate: bool = False
    """In a fresh container of its own, with nothing but the artifacts."""
    network: Network | None = None
    """None: as the environment."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The reference that proves a task solvable."""

    folder: Path
    """Holds solve.sh."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A path in the sandbox that is part of the agent's result."""

    source: str
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: str | None = None
    """Of a compose project; None is the agent's own."""


@dataclass(frozen=True, slots=True)
class Task:
    """An instruction, an environment to work in, and a verifier."""

    id: str
    """As the task calls itself, else its `name`; letters, digits, `.`, `_`, `-` and `/`."""
    name: str
    """Of its folder, other characters than letters, digits, `.`, `_` and `-` made to `-`."""
    folder: Path
    """Absolute."""
    digest: str
    """`sha256:…` over every file."""
    format: str
    instruction: str
    """Empty only for a task that needs `multi-step`."""
    environment: Environment
    agent: AgentPhase
    verifier: VerifierPhase
    solution: Solution | None = None
    artifacts: tuple[Artifact, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    """Free; nothing depends on it."""
    needs: tuple[str, ...] = ()
    """Values of `Need`, so that a task can be listed as unsupported instead of failing."""
    warnings: tuple[str, ...] = ()
