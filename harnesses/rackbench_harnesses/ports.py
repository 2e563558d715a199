"""What a harness sees of the world: a sandbox, an endpoint, a recorder, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from rackbench_results.records import Step
from rackbench_tasks import Solution


class SandboxError(RuntimeError):
    """The sandbox itself failed: the command's fate is unknown, the attempt is void."""


class HarnessSetupError(RuntimeError):
    """A harness could not be made ready in this sandbox: the attempt is void."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run in a sandbox."""

    argv: Sequence[str]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    """None: the user that the task declares for the agent."""
    cwd: str | None = None
    """None: the working folder of the task."""
    timeout_seconds: float | None = None
    """When over, every process that the command started is killed."""
    output_limit_bytes: int = 1_000_000
    """Of each stream; what goes beyond is counted and dropped."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did; bytes are kept as they came."""

    exit_code: int | None
    """None: it was killed at its time limit."""
    stdout: bytes
    stderr: bytes
    stdout_dropped_bytes: int = 0
    stderr_dropped_bytes: int = 0
    timed_out: bool = False
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """Standard output, decoded leniently."""
        return self.stdout.decode(errors="replace")


class Sandbox(Protocol):
    """The isolated place where one attempt runs."""

    async def run(self, command: Command) -> CommandResult:
        """Run a program to its end, or to its time limit.

        Raises SandboxError where the sandbox itself is gone or broken.
        """
        ...

    async def upload(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        """Write files at absolute paths, owned by root, in one go."""
        ...

    async def upload_folder(self, folder: Path, target: str) -> None:
        """Copy a folder of the host to an absolute path, permissions kept, owned by root."""
        ...

    async def download(self, path: str, *, limit_bytes: int) -> dict[str, bytes]:
        """Regular files below a path by relative name; links and devices are left out.

        Raises SandboxError where the path is missing or holds more than `limit_bytes`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """Where a harness reaches its model: an address that the gateway made for this attempt."""

    base_url: str
    """Ends in /v1."""
    api_key: str
    model: str
    context_tokens: int | None = None
    output_tokens: int | None = None
    """Cap of one answer."""
    tools: bool = True
    """False: the endpoint cannot call tools, so that a harness must parse text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one agent phase may use; None is no limit."""

    seconds: float | None = None
    steps: int | None = None
    tokens: int | None = None
    """Prompt and completion tokens of all calls together."""


class Recorder(Protocol):
    """Takes down what a harness does, as it happens."""

    def step(self, step: Step) -> None:
        """Add a finished step to the trajectory."""
        ...

    def event(self, kind: str, detail: str = "", **extra: str | float | bool | None) -> None:
        """Note something worth a line in the attempt's events."""
        ...


class Finish(StrEnum):
    """How a harness says that it ended."""

    SUBMITTED = "submitted"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105  # a budget, not a secret
    CONTEXT_LIMIT = "context_limit"
    TRUNCATED = "truncated"
    REFUSAL = "refusal"
    ERROR = "error"
    ENDPOINT_ERROR = "endpoint_error"


@dataclass(frozen=True, slots=True)
class HarnessExit:
    """The end of an agent phase, as the harness saw it."""

    finish: Finish
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """Everything a harness is given for one attempt."""

    instruction: str
    sandbox: Sandbox
    recorder: Recorder
    limits: Limits
    model: ModelAccess | None = None
    """None for harnesses that need no model."""
    solution: Solution | None = None
    """The reference solution; given only to a harness that declares `needs_solution`."""
    mcp_servers: Sequence[Mapping[str, object]] = ()
    """Tool servers that the task brings: name, transport, and url or command with args."""
    skills_folder: str | None = None
    """Folder in the sandbox with skills that the task brings."""


@runtime_checkable
class Harness(Protocol):
    """The agent program: turns an instruction into actions."""

    name: ClassVar[str]
    version: ClassVar[str]
    needs_model: ClassVar[bool]
    needs_solution: ClassVar[bool]

    async def set_up(self, session: Session) -> None:
        """Make the sandbox ready, before the agent's clock starts.

        Raises HarnessSetupError.
        """
        ...

    async def run(self, session: Session) -> HarnessExit:
        """Work until done; cancelled from outside when the agent's time is over."""
        ...
