"""Mutants of the reference fail: nearly right is not right."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from rackbench.check.case import Case, Check
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.variant import Variant, with_solution
from rackbench_harnesses.oracle import Oracle
from rackbench_results.outcomes import Outcome
from rackbench_tasks import Solution, Stage, Task

_FOLDER = "mutants"
_PREFIX = "mutant-"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def _variants(task: Task) -> list[Variant]:
    folder = task.folder / _FOLDER
    mutants = sorted(path for path in folder.glob("*") if path.is_dir())
    return [_variant(task, mutant) for mutant in mutants]


def _variant(task: Task, mutant: Path) -> Variant:
    def choose(stage: Stage) -> Solution | None:
        return _mutated(stage.solution, mutant, stage.name)

    name = _PREFIX + _UNSAFE.sub("-", mutant.name)
    words = (f"the solution is {mutant.relative_to(task.folder)}",)
    return Variant(name, Oracle({}), with_solution(task, choose), {"mutant": mutant.name}, words)


def _mutated(solution: Solution | None, mutant: Path, stage: str) -> Solution | None:
    """The reference with the mutant's files over it; those of a stage in a folder of its name."""
    own = mutant / stage
    folder = own if stage and own.is_dir() else mutant
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    base = solution or Solution()
    return replace(base, files={**base.files, **files}) if files or solution else None


def _judge(case: Case) -> list[Finding]:
    found = []
    for seen in case.named(_PREFIX):
        name = seen.variant.name.removeprefix(_PREFIX)
        if seen.solved:
            text = f"the mutant {name} passes: the tests do not tell it from the reference"
            found.append(Finding(CheckName.MUTANTS, Level.ERROR, text, seen.evidence()))
        elif seen.result.outcome is not Outcome.UNSOLVED:
            text = f"the mutant {name} was not judged: {seen.words()}"
            found.append(Finding(CheckName.MUTANTS, Level.ERROR, text, seen.evidence()))
    return found


CHECK = Check(CheckName.MUTANTS, _variants, _judge)
