"""The run file: what is asked for, read, overridden from the command line, and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, field_validator, model_validator

from rackbench.errors import UsageError
from rackbench_harnesses.settings import Settings, SettingsError, read_settings
from rackbench_tasks import Source

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Arm(Settings):
    """One (harness, its settings, endpoint) under comparison."""

    harness: str
    """Name of a harness, or module:Class."""
    name: str | None = None
    """In tables and folders; None: the harness's, with the endpoint's where it has one."""
    endpoint: str | None = None
    """Name of an entry of `endpoints`."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """For the harness."""

    @property
    def label(self) -> str:
        """The name that tables and folders show."""
        return self.name or "-".join(filter(None, (self.harness.rpartition(":")[2], self.endpoint)))


class RunLimits(Settings):
    """What an agent may use, beside what its task says."""

    agent_seconds: Annotated[float, Field(gt=0)] = 600
    """Where a task sets no time limit of its own."""
    timeout_multiplier: Annotated[float, Field(gt=0)] = 1.0
    """On every task's agent limit; anything but 1 makes scores not comparable with a board."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Model calls of one attempt; None: the harness's own limit."""
    tokens: Annotated[int, Field(ge=1)] | None = None
    """Prompt and completion tokens of one attempt; None: no limit."""


class SandboxSettings(Settings):
    """Defaults and policy of sandboxes."""

    kind: str = "docker"
    cpus: Annotated[float, Field(gt=0)] = 1.0
    """Where a task does not say."""
    memory_mb: Annotated[int, Field(ge=16)] = 2048
    """Where a task does not say; swap is always off."""
    storage_mb: Annotated[int, Field(ge=16)] = 10240
    """Where a task does not say: what an attempt may write."""
    artifacts_mb: Annotated[int, Field(ge=1)] = 1024
    """What may be taken out of a sandbox as its artifacts; what is larger is left out, and said."""
    processes: Annotated[int, Field(ge=16)] = 512
    """Processes and threads at once."""
    image_map: dict[str, str] | Path = Field(default_factory=dict)
    """Local names or ids of images by the names that tasks have for them, digest-pinned ones too;
    or the folder that `rackbench task images load` read, relative to the run file."""
    network: Literal["task", "sealed"] = "task"
    """`task`: as each task declares; `sealed`: no network for any."""
    new_privileges: bool = False
    """True lets programs such as sudo raise privileges."""


class RunSpec(Settings):
    """A whole run file."""

    name: str = "run"
    """Part of the run's folder name."""
    tasks: tuple[Source, ...] = Field(min_length=1)
    """Where the tasks come from: one path, or several."""
    arms: tuple[Arm, ...] = Field(min_length=1)
    """What is compared."""
    endpoints: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Models by name; the keys of each depend on its `kind`."""
    attempts: Annotated[int, Field(ge=1)] = 1
    """Trials of each task and arm."""
    retries: Annotated[int, Field(ge=0)] = 2
    """New attempts after a void one; decided before the run, never for a wrong answer."""
    limits: RunLimits = RunLimits()
    sandbox: SandboxSettings = SandboxSettings()
    verifier_tools: Path | None = None
    """Folder that `rackbench task warm` made, for verifiers that would install things from the
    internet; relative to the run file."""
    slots: Annotated[int, Field(ge=1)] | None = None
    """Attempts at once; None: one per CPU core."""
    seed: int = 0
    """Of the order of trials and of the resampling."""
    solved_at: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Reward from which a trial counts as solved."""
    void_threshold: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of void trials above which the run says so first, and ends with exit code 1."""
    disk_floor_gb: Annotated[float, Field(ge=0)] = 5.0
    """Free space on Docker's disk below which nothing is started."""
    results: Path = Path("runs")
    """Where run folders are written; relative to the current folder."""

    @field_validator("tasks", mode="before")
    @classmethod
    def _one_path_is_a_list_of_one(cls, value: object) -> object:
        if isinstance(value, (str, Path)):
            return [{"path": value}]
        if isinstance(value, list):
            return [{"path": item} if isinstance(item, str) else item for item in value]
        return [value] if isinstance(value, dict) else value

    @field_validator("arms", mode="before")
    @classmethod
    def _a_harness_is_an_arm(cls, value: object) -> object:
        if isinstance(value, list):
            return [{"harness": item} if isinstance(item, str) else item for item in value]
        return value

    @model_validator(mode="after")
    def _names_fit(self) -> RunSpec:
        labels = [arm.label for arm in self.arms]
        for label in (*labels, *self.endpoints, self.name):
            if not _NAME.fullmatch(label):
                raise ValueError(f"name {label!r} may hold only letters, digits, '.', '_' and '-'")
        if twice := {label for label in labels if labels.count(label) > 1}:
            raise ValueError(f"arms need different names; twice: {', '.join(sorted(twice))}")
        for arm in self.arms:
            if arm.endpoint and arm.endpoint not in self.endpoints:
                known = ", ".join(self.endpoints) or "none"
                raise ValueError(
                    f"arm {arm.label!r} names endpoint {arm.endpoint!r}; there is: {known}"
                )
        return self


def read_values(path: Path) -> dict[str, Any]:
    """The keys and values of a run file, unchecked.

    Raises UsageError.
    """
    try:
        values = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"there is no run file {path}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"run file {path}: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"run file {path}: expected keys and values, see README")
    return values


def make_spec(values: Mapping[str, Any], *, origin: str, beside: Path) -> RunSpec:
    """Check the values of a run file; paths of tasks are resolved against its folder.

    Raises UsageError, all problems at once.
    """
    try:
        spec = read_settings(RunSpec, values)
    except SettingsError as error:
        lines = "".join(f"\n  {problem}" for problem in error.problems)
        raise UsageError(f"run file {origin}:{lines}") from error
    sources = tuple(source.anchored(beside) for source in spec.tasks)
    tools = spec.verifier_tools and (beside / spec.verifier_tools.expanduser()).resolve()
    sandbox = spec.sandbox
    if isinstance(sandbox.image_map, Path):
        folder = (beside / sandbox.image_map.expanduser()).resolve()
        sandbox = sandbox.model_copy(update={"image_map": folder})
    return spec.model_copy(update={"tasks": sources, "verifier_tools": tools, "sandbox": sandbox})


def override_key(values: dict[str, Any], override: str) -> None:
    """Set `a.b.c=value` in nested mappings and lists; the value is read as YAML."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UsageError(f"override {override!r}: expected key=value, such as limits.steps=20")
    *path, last = key.split(".")
    target: Any = values
    for part in path:
        target = _enter(target, part, override)
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"override {override!r}: the value is not YAML: {error}") from error
    if isinstance(target, list):
        target[_position(target, last, override)] = value
    elif isinstance(target, dict):
        target[last] = value
    else:
        raise UsageError(f"override {override!r}: {'.'.join(path)} holds no keys")


def _enter(target: Any, part: str, override: str) -> Any:
    if isinstance(target, list):
        return target[_position(target, part, override)]
    if isinstance(target, dict):
        if target.get(part) is None:
            target[part] = {}
        return target[part]
    raise UsageError(f"override {override!r}: {part} lies below a plain value")


def _position(target: list[Any], part: str, override: str) -> int:
    if not part.isdigit() or int(part) >= len(target):
        raise UsageError(
            f"override {override!r}: {part!r} is no position in a list of {len(target)}"
        )
    return int(part)
