"""A task as the rest of the program sees it, whatever format it was written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class TaskError(ValueError):
    """Tasks that cannot be used; `problems` holds one line for each thing that is wrong."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class NetworkMode(StrEnum):
    """What a task may reach."""

    PUBLIC = "public"
    NO_NETWORK = "no-network"
    ALLOWLIST = "allowlist"


@dataclass(frozen=True, slots=True)
class Network:
    """A task's declaration of what it reaches."""

    mode: NetworkMode = NetworkMode.PUBLIC
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Healthcheck:
    """How to know that the environment is ready."""

    command: str
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0
    start_period_seconds: float = 0.0
    start_interval_seconds: float = 5.0
    retries: int = 3


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a task is worked on; None means that the task does not say."""

    dockerfile_context: Path | None = None
    """Folder that holds the Dockerfile; None where a ready image is named."""
    docker_image: str | None = None
    build_timeout_seconds: float = 600.0
    cpus: float | None = None
    memory_bytes: int | None = None
    storage_bytes: int | None = None
    gpus: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    healthcheck: Healthcheck | None = None
    network: Network = Network()


@dataclass(frozen=True, slots=True)
class AgentPhase:
    """What the agent may use."""

    timeout_seconds: float | None = None
    """None: the run decides."""
    user: str | None = None
    """None: the image's own."""


@dataclass(frozen=True, slots=True)
class VerifierPhase:
    """How the work is judged."""

    tests: Path
    timeout_seconds: float = 600.0
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    """None: the image's own."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The reference solution."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """A folder: instruction, environment, verifier, reference solution, limits."""

    id: str
    folder: Path
    digest: str
    """sha256 over every file."""
    format: str
    instruction: str
    environment: Environment
    agent: AgentPhase
    verifier: VerifierPhase
    solution: Solution | None = None
    needs: tuple[str, ...] = ()
    """What it needs beyond one container with a shared verifier; a runner without it lists it."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The folder's name: short, and unique within a suite."""
        return self.folder.name
