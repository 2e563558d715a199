"""An attempt that a check wants: an agent, and the task as it is or varied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rackbench.reach import verifier_network
from rackbench_harnesses.ports import Harness
from rackbench_tasks import Environment, Network, NetworkMode, Solution, Stage, Task, VerifierPhase

_ENDS_OF_THE_WORLD = ("LINT-14", "AOE12")
"""Time zones 26 hours apart, written so that an image needs no table of them."""
_REVERSING = b'''\
"""Runs the tests from the last to the first: none may lean on another."""


def pytest_collection_modifyitems(items):
    items.reverse()
'''


@dataclass(frozen=True, slots=True)
class Variant:
    """One attempt to make."""

    name: str
    """Of its arm."""
    harness: Harness
    task: Task
    settings: Mapping[str, Any] = field(default_factory=dict)
    varied: tuple[str, ...] = ()
    """What is not as the task has it, in words."""


def varied(name: str, harness: Harness, task: Task, *, round_: int) -> Variant:
    """The task at another hour, with another hash seed and, each second time, in another order."""
    zone = _ENDS_OF_THE_WORLD[(round_ - 1) % 2]
    env = {"TZ": zone, "PYTHONHASHSEED": str(round_)}
    words = [f"{key}={value}" for key, value in env.items()]
    task = _with_env(task, env)
    if round_ % 2 == 0 and (turned := _reversed(task)):
        task = turned
        words.append("pytest's tests from last to first")
    return Variant(name, harness, task, {"varied": words}, tuple(words))


def with_solution(task: Task, choose: Callable[[Stage], Solution | None]) -> Task:
    """The task with other solutions."""
    stages = tuple(replace(stage, solution=choose(stage)) for stage in task.stages)
    return replace(task, stages=stages)


def sealed(task: Task) -> Task | None:
    """The task with a verifier that reaches nothing; None where it is so already."""
    none = Network(NetworkMode.NO_NETWORK)
    if all(verifier_network(task, stage).mode is none.mode for stage in task.stages):
        return None
    stages = tuple(
        replace(stage, verifier=replace(stage.verifier, network=none)) for stage in task.stages
    )
    return replace(task, stages=stages)


def _with_env(task: Task, env: Mapping[str, str]) -> Task:
    """The task's own values win: they are part of it."""

    def more(environment: Environment) -> Environment:
        return replace(environment, env={**env, **environment.env})

    def verifier(phase: VerifierPhase) -> VerifierPhase:
        inner = more(phase.environment) if phase.environment else None
        return replace(phase, env={**env, **phase.env}, environment=inner)

    stages = tuple(replace(stage, verifier=verifier(stage.verifier)) for stage in task.stages)
    return replace(task, environment=more(task.environment), stages=stages)


def _reversed(task: Task) -> Task | None:
    """The task with a conftest.py that turns the order; None where it has one of its own.

    A plug-in named in a variable would make pytest fail where a script sets PYTHONPATH itself.
    """
    folders = [folder for stage in task.stages for folder in stage.verifier.tests]
    if not folders or any((folder / "conftest.py").exists() for folder in folders):
        return None
    stages = tuple(
        replace(stage, verifier=_reversing(stage.verifier)) if _uses_pytest(stage) else stage
        for stage in task.stages
    )
    return replace(task, stages=stages) if stages != task.stages else None


def _reversing(verifier: VerifierPhase) -> VerifierPhase:
    return replace(verifier, files={**verifier.files, "conftest.py": _REVERSING})


def _uses_pytest(stage: Stage) -> bool:
    return any(
        "pytest" in script.read_text(errors="replace")
        for folder in stage.verifier.tests
        for script in _scripts(folder)
    )


def _scripts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file() and path.suffix in (".sh", ".py")]
