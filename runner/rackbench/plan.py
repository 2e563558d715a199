"""The plan: every trial of a run, resolved, keyed by content, in its order. Pure."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rackbench.endpoint.serving import EndpointKind
from rackbench.errors import UsageError
from rackbench.sandbox.image_archives import read_image_map
from rackbench.sandbox.images import ImageError
from rackbench.spec import Arm, RunSpec
from rackbench.verifier_tools import VerifierTools, load_tools
from rackbench_harnesses import registry
from rackbench_harnesses.ports import Harness
from rackbench_harnesses.settings import SettingsError, read_settings
from rackbench_results.outcomes import Reason
from rackbench_results.records import EndpointIdentity, TrialKey
from rackbench_tasks import (
    Need,
    Network,
    NetworkMode,
    Origin,
    Source,
    Stage,
    Suite,
    Task,
    TaskError,
    load_sources,
)

_MEGABYTE = 1024 * 1024
_NOT_OFFERED = {
    Need.TPU: Reason.RESOURCES,
    Need.TRAJECTORY: Reason.RESOURCES,
    Need.WINDOWS: Reason.ARCHITECTURE,
}
"""What no host of ours can give a task."""


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """An arm, resolved."""

    name: str
    harness: Harness
    settings: Mapping[str, Any]
    endpoint: str | None

    def digest(self, identity: EndpointIdentity | None) -> str:
        """Of everything that makes its trials this experiment; the address is not among it."""
        return _digest(
            {
                "harness": self.harness.name,
                "version": self.harness.version,
                "settings": self.settings,
                "endpoint": identity.model_dump(mode="json") if identity else None,
            }
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """One (task, arm, index)."""

    task: Task
    arm: PlannedArm
    index: int

    @property
    def label(self) -> str:
        """For people: `task/arm/index`."""
        return f"{self.task.name}/{self.arm.name}/{self.index}"

    def key(self, identity: EndpointIdentity | None) -> TrialKey:
        """Identity by content."""
        return TrialKey(
            task_digest=self.task.digest,
            arm_digest=self.arm.digest(identity),
            index=self.index,
        )


@dataclass(frozen=True, slots=True)
class Resources:
    """What one attempt may use."""

    cpus: float
    memory_bytes: int
    storage_bytes: int
    agent_seconds: float
    verifier_seconds: float
    network: str
    """Of the environment; phases may have less, or more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run will do."""

    spec: RunSpec
    tasks: tuple[Task, ...]
    origins: Mapping[str, Origin]
    """Of the tasks, by id."""
    arms: tuple[PlannedArm, ...]
    endpoints: Mapping[str, EndpointKind]
    trials: tuple[Trial, ...]
    tools: VerifierTools | None
    """Lent to verifiers."""
    image_map: Mapping[str, str]
    """Local names or ids of images by the names that tasks have for them."""
    warnings: tuple[str, ...]

    def resources(self, task: Task) -> Resources:
        """The task's own limits, the run file's where it has none."""
        asked, defaults = task.environment, self.spec.sandbox
        return Resources(
            cpus=asked.cpus or defaults.cpus,
            memory_bytes=asked.memory_bytes or defaults.memory_mb * _MEGABYTE,
            storage_bytes=asked.storage_bytes or defaults.storage_mb * _MEGABYTE,
            agent_seconds=sum(map(self.agent_seconds, task.stages)),
            verifier_seconds=sum(stage.verifier.timeout_seconds for stage in task.stages),
            network=self._network(asked.network),
        )

    def agent_seconds(self, stage: Stage) -> float:
        """Time of one agent phase: the task's own limit, the run file's where it has none."""
        seconds = stage.agent.timeout_seconds or self.spec.limits.agent_seconds
        return seconds * self.spec.limits.timeout_multiplier

    def _network(self, declared: Network) -> NetworkMode:
        sealed = self.spec.sandbox.network == "sealed"
        return NetworkMode.NO_NETWORK if sealed else declared.mode

    def record(self) -> dict[str, Any]:
        """`plan.json`: the plan as data, for people and for the check before a resumption."""
        return {
            "schema_version": 1,
            "name": self.spec.name,
            "seed": self.spec.seed,
            "summary": {
                "solved_at": self.spec.solved_at,
                "void_threshold": self.spec.void_threshold,
                "seed": self.spec.seed,
                "planned": {arm.name: len(self.tasks) * self.spec.attempts for arm in self.arms},
            },
            "board_comparable": self.spec.limits.timeout_multiplier == 1.0,
            "tasks": [
                {
                    "id": task.id,
                    "name": task.name,
                    "folder": str(task.folder),
                    "digest": task.digest,
                    "origin": asdict(self.origins[task.id]),
                    "resources": _as_dict(self.resources(task)),
                    "needs": list(task.needs),
                }
                for task in self.tasks
            ],
            "arms": [
                {
                    "name": arm.name,
                    "harness": arm.harness.name,
                    "harness_version": arm.harness.version,
                    "settings": dict(arm.settings),
                    "endpoint": arm.endpoint,
                    "digest": arm.digest(self.identity_of(arm)),
                }
                for arm in self.arms
            ],
            "endpoints": {
                name: endpoint.identity().model_dump(mode="json")
                for name, endpoint in self.endpoints.items()
            },
            "image_map": dict(self.image_map),
            "verifier_tools": self.tools.digest if self.tools else None,
            "trials": [[t.task.name, t.arm.name, t.index] for t in self.trials],
            "warnings": list(self.warnings),
        }

    def identity_of(self, arm: PlannedArm) -> EndpointIdentity | None:
        """Who will answer an arm, as far as it is known before anything is started."""
        return self.endpoints[arm.endpoint].identity() if arm.endpoint else None


def make_plan(
    spec: RunSpec, *, beside: Path, host_env: Mapping[str, str], strict: bool = False
) -> Plan:
    """Resolve a run file. Nothing is started, nothing is written.

    Raises UsageError, PrerequisiteError.
    """
    endpoints = {name: _endpoint(name, values, beside) for name, values in spec.endpoints.items()}
    try:
        registry.load("rackbench.sandboxes", spec.sandbox.kind)
    except registry.PluginError as error:
        raise UsageError(f"sandbox.kind: {error}") from error
    arms = tuple(_arm(arm) for arm in spec.arms)
    suite = _suite(spec.tasks, strict=strict, host_env=host_env)
    tasks = suite.tasks
    told = [*suite.warnings, *(line for task in tasks for line in task.warnings)]
    warnings = list(dict.fromkeys(told))
    trials = [
        Trial(task, arm, index) for index in range(spec.attempts) for task in tasks for arm in arms
    ]
    # Drift of a machine or an endpoint over a run must hit all arms alike.
    random.Random(spec.seed).shuffle(trials)  # noqa: S311
    for arm in arms:
        if arm.harness.needs_solution:
            warnings += [
                f"{task.name}: no reference solution"
                for task in tasks
                if not all(stage.solution for stage in task.stages)
            ]
    return Plan(
        spec=spec,
        tasks=tasks,
        origins=suite.origins,
        arms=arms,
        endpoints=endpoints,
        trials=tuple(trials),
        tools=load_tools(spec.verifier_tools) if spec.verifier_tools else None,
        image_map=_image_map(spec.sandbox.image_map),
        warnings=tuple(warnings),
    )


def unsupported(task: Task) -> tuple[Reason, str] | None:
    """Why this task can run on no host of ours, or None."""
    for need, reason in _NOT_OFFERED.items():
        if need in task.needs:
            return reason, f"needs {need}, which this version does not offer"
    return None


def _image_map(written: Mapping[str, str] | Path) -> Mapping[str, str]:
    if not isinstance(written, Path):
        return written
    try:
        return read_image_map(written)
    except ImageError as error:
        raise UsageError(f"sandbox.image_map: {error}") from error


def _suite(sources: Sequence[Source], *, strict: bool, host_env: Mapping[str, str]) -> Suite:
    # Sources have absolute paths by now.
    try:
        suite = load_sources(sources, beside=Path("/"), strict=strict, host_env=host_env)
    except TaskError as error:
        raise UsageError(str(error)) from error
    named: dict[str, Task] = {}
    problems = [
        f"two tasks are called {task.name}: {twin.folder}, {task.folder}"
        for task in suite.tasks
        if (twin := named.setdefault(task.name, task)) is not task
    ]
    if problems:
        raise UsageError("\n".join(problems))
    return suite


def _arm(arm: Arm) -> PlannedArm:
    try:
        harness: Harness = registry.load("rackbench.harnesses", arm.harness)(arm.settings)
    except registry.PluginError as error:
        raise UsageError(f"arm {arm.label!r}: {error}") from error
    except SettingsError as error:
        raise UsageError(f"arm {arm.label!r}, settings of {arm.harness}: {error}") from error
    if harness.needs_model and not arm.endpoint:
        raise UsageError(f"arm {arm.label!r}: {arm.harness} needs an endpoint")
    return PlannedArm(arm.label, harness, arm.settings, arm.endpoint)


def _endpoint(name: str, values: Mapping[str, Any], beside: Path) -> EndpointKind:
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(kind, str):
        raise UsageError(f"endpoint {name!r} needs a `kind`: external, vllm or scripted")
    try:
        plugin = registry.load("rackbench.endpoints", kind)
        settings = read_settings(plugin.Settings, values)
    except registry.PluginError as error:
        raise UsageError(f"endpoint {name!r}: {error}") from error
    except SettingsError as error:
        lines = "".join(f"\n  {problem}" for problem in error.problems)
        raise UsageError(f"endpoint {name!r}:{lines}") from error
    endpoint: EndpointKind = plugin(settings, beside=beside)
    return endpoint


def _as_dict(resources: Resources) -> dict[str, Any]:
    return {name: getattr(resources, name) for name in resources.__slots__}


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
