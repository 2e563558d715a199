"""Golden tasks of every format, run: the reference solves each, doing nothing solves none."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Program

pytestmark = pytest.mark.docker

TASKS = Path(__file__).parents[1] / "data" / "tasks"
# Written to be read: their reference is missing, or the image of their verifier holds no tests.
WITHOUT_REFERENCE = {"command-verifier", "steps-by-folder", "steps-final", "typed-into-an-editor"}
WITHOUT_TESTS = {"separate-own-image", "steps-final"}


@pytest.mark.parametrize("task_format", ["harbor", "terminal-bench-1"])
def test_every_golden_task_runs_unmodified(program: Program, task_format: str) -> None:
    file = program.write_run(
        tasks=str(TASKS / task_format), arms=["oracle", "nop"], retries=0, void_threshold=1.0
    )
    program.call("run", file)
    found = {
        trial: (result["outcome"], result["reward"], result["reason"])
        for trial, result in program.final().items()
    }
    expected: dict[str, tuple[str, float | None, str | None]] = {}
    for task in {trial.rpartition("/")[0] for trial in found}:
        solved = ("solved", 1.0, None)
        idle = ("unsolved", 0.0, "wrong")
        no_verdict = ("void", None, "verifier")
        no_reference = ("void", None, "harness_setup")
        expected[f"{task}/nop"] = no_verdict if task in WITHOUT_TESTS else idle
        expected[f"{task}/oracle"] = no_verdict if task in WITHOUT_TESTS else solved
        if task in WITHOUT_REFERENCE:
            expected[f"{task}/oracle"] = no_reference
    assert found == expected
    assert len(found) == 2 * len(
        [path for path in (TASKS / task_format).iterdir() if path.is_dir()]
    )
