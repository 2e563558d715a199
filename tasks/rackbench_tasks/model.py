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


class RewardStrategy(StrEnum):
    """How the rewards of several stages become one."""

    MEAN = "mean"
    """Over all stages; one that was not reached counts 0."""
    FINAL = "final"
    """That of the last stage; 0 where it was not reached."""


class Need(StrEnum):
    """What a task asks for beyond one Linux container whose verifier runs in it."""

    COMPOSE = "compose"
    GPU = "gpu"
    TPU = "tpu"
    WINDOWS = "windows"
    MULTI_STEP = "multi-step"
    """It has several stages."""
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
class Build:
    """How an image is made from files of a task."""

    context: Path
    dockerfile: str = "Dockerfile"
    """Below the context."""
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Compose:
    """A project of several containers, described by a compose file."""

    file: Path
    service: str = "main"
    """The agent's own."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the file may interpolate, beside the runner's own."""
    keep_command: bool = False
    """Whether the agent's service runs its own command; else it only waits."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the agent, or a separate verifier, works. A limit that is None is the runner's to choose."""

    build: Build | None = None
    """`docker_image` goes first where both are there."""
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
    compose: Compose | None = None
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
class CollectHook:
    """A command that gathers results once the agent has ended, before artifacts are taken."""

    command: str
    service: str | None = None
    """Of a compose project; None is the agent's own."""
    timeout_seconds: float = 60.0
    user: str | None = None


@dataclass(frozen=True, slots=True)
class VerifierPhase:
    """How the result is judged."""

    tests: tuple[Path, ...] = ()
    """Folders copied to /tests, later over earlier, once the agent has ended; none where the image
    of a separate verifier holds its tests."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Written below /tests after the folders."""
    command: tuple[str, ...] = ("/tests/test.sh",)
    timeout_seconds: float = 600.0
    env: Mapping[str, str] = field(default_factory=dict)
    """Resolved: secrets of the host may be among the values."""
    user: str | None = None
    separate: bool = False
    """In a fresh container of its own, with nothing but the artifacts."""
    environment: Environment | None = None
    """Of a separate verifier; its limits are the agent's where it has none of its own."""
    network: Network | None = None
    """None: as the environment that it runs in."""
    collect: tuple[CollectHook, ...] = ()
    parser: str | None = None
    """Of the command's output, one of `OUTPUT_PARSERS`; None: the reward is in a file."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The reference that proves a task solvable."""

    folder: Path | None = None
    """Copied to /solution."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Written below /solution after the folder."""
    script: str = "solve.sh"
    """Below /solution; run by bash."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A path in the sandbox that is part of the agent's result."""

    source: str
    destination: str | None = None
    """In the attempt's folder; a separate verifier has it at `source` in any case."""
    exclude: tuple[str, ...] = ()
    service: str | None = None
    """Of a compose project; None is the agent's own."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One instruction, and how its result is judged; most tasks have a single one."""

    instruction: str
    agent: AgentPhase
    verifier: VerifierPhase
    name: str = ""
    """Empty for the only stage of a task."""
    solution: Solution | None = None
    artifacts: tuple[Artifact, ...] = ()
    """The task's own among them."""
    workdir: Path | None = None
    """Files put into the working folder before the agent starts; a setup.sh of it is run."""
    healthcheck: Healthcheck | None = None
    """Of the stage, beside that of the environment."""
    min_reward: Mapping[str, float] = field(default_factory=dict)
    """By key of the reward; below one of them, later stages are not begun."""


@dataclass(frozen=True, slots=True)
class Task:
    """An environment to work in, and instructions with their verifiers."""

    id: str
    """As the task calls itself, else its `name`; letters, digits, `.`, `_`, `-` and `/`."""
    name: str
    """Of its folder, other characters than letters, digits, `.`, `_` and `-` made to `-`."""
    folder: Path
    """Absolute."""
    digest: str
    """`sha256:…` over every file."""
    format: str
    environment: Environment
    stages: tuple[Stage, ...]
    """At least one, in the order in which they are worked on."""
    reward_strategy: RewardStrategy = RewardStrategy.MEAN
    metadata: Mapping[str, object] = field(default_factory=dict)
    """Free; nothing depends on it."""
    needs: tuple[str, ...] = ()
    """Values of `Need`, so that a task can be listed as unsupported instead of failing."""
    warnings: tuple[str, ...] = ()
