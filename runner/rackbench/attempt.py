"""What is taken down while an attempt goes on, and its result at the end."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rackbench.plan import Trial
from rackbench.progress import PhaseBegan
from rackbench.site import Site
from rackbench.verdict import Verdict
from rackbench.verification import Verified
from rackbench_results.atif import to_atif
from rackbench_results.records import (
    AttemptRecord,
    Phase,
    Result,
    StageResult,
    Step,
    TrialKey,
    Usage,
)
from rackbench_results.store import AttemptLog, read_lines, write_record
from rackbench_tasks import Reward, Stage


@dataclass(slots=True)
class Attempt:
    """One execution of a trial, as it unfolds."""

    trial: Trial
    site: Site
    key: TrialKey
    folder: Path
    log: AttemptLog
    queue_seconds: float
    record: AttemptRecord
    phases: list[Phase] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    image: str | None = None
    harness_exit: str | None = None
    teardown_error: str | None = None
    is_removed: bool = False
    """Whether the agent's sandbox is gone already."""
    reward: Reward | None = None
    stages: list[StageResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str, *, limit_seconds: float | None = None) -> Iterator[None]:
        """Time a phase, and tell that it began."""
        at, began = datetime.now(UTC), time.monotonic()
        self.log.event("phase", name)
        self.site.observers.see(PhaseBegan(self.trial.label, self.record.attempt, name))
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            self.phases.append(
                Phase(name=name, started_at=at, seconds=seconds, limit_seconds=limit_seconds)
            )

    def stage_folder(self, stage: Stage) -> Path:
        """Where what belongs to a stage is kept: the attempt's own folder for the only one."""
        return self.folder / "stages" / stage.name if stage.name else self.folder

    def judged(self, stage: Stage, agent_end: str, verified: Verified) -> None:
        """Take down what a verifier made of a stage."""
        self.stages.append(
            StageResult(
                name=stage.name,
                reward=verified.reward.value,
                rewards=dict(verified.reward.all),
                tests={name: str(status) for name, status in verified.tests.items()},
                agent_end=agent_end,
            )
        )

    def teardown_failed(self, why: str) -> None:
        """Note a failed teardown beside the attempt's own outcome."""
        self.teardown_error = why
        self.log.event("teardown_error", why)

    def result(self, verdict: Verdict) -> Result:
        """The commit mark's content."""
        return Result(
            run_id=self.record.run_id,
            key=self.key,
            task_id=self.record.task_id,
            arm=self.record.arm,
            attempt=self.record.attempt,
            outcome=verdict.outcome,
            reason=verdict.reason,
            detail=verdict.detail,
            reward=self.reward.value if self.reward else None,
            rewards=dict(self.reward.all) if self.reward else {},
            tests=self._tests(),
            stages=self._all_stages(),
            started_at=self.record.started_at,
            finished_at=datetime.now(UTC),
            queue_seconds=self.queue_seconds,
            phases=tuple(self.phases),
            usage=self.usage,
            image=self.image,
            harness_exit=self.harness_exit,
            teardown_error=self.teardown_error,
            notes=tuple(self.notes),
        )

    def _tests(self) -> dict[str, str]:
        if len(self.trial.task.stages) == 1:
            return dict(self.stages[0].tests) if self.stages else {}
        return {
            f"{stage.name}: {name}": status
            for stage in self.stages
            for name, status in stage.tests.items()
        }

    def _all_stages(self) -> tuple[StageResult, ...]:
        """Of a task with several: those that were not reached too."""
        names = [stage.name for stage in self.trial.task.stages]
        if len(names) == 1:
            return ()
        return (*self.stages, *(StageResult(name=name) for name in names[len(self.stages) :]))


@contextmanager
def new_attempt(trial: Trial, site: Site, *, queue_seconds: float) -> Iterator[Attempt]:
    """Claim a folder for an attempt and open its log."""
    serving = site.serving_of(trial.arm)
    key = trial.key(serving.identity if serving else None)
    folder = site.folder.next_attempt(
        site.folder.trial_folder(trial.task.name, trial.arm.name, trial.index)
    )
    record = AttemptRecord(
        run_id=site.run_id,
        key=key,
        task_id=trial.task.id,
        arm=trial.arm.name,
        attempt=int(folder.name.rpartition("-")[2]),
        started_at=datetime.now(UTC),
        runner_pid=os.getpid(),
        host=platform.node(),
    )
    write_record(folder / "attempt.json", record)
    with AttemptLog(folder) as log:
        yield Attempt(trial, site, key, folder, log, queue_seconds, record)


def commit(attempt: Attempt, verdict: Verdict) -> Result:
    """Write what belongs to the attempt, its result last."""
    _write_trajectory(attempt)
    result = attempt.result(verdict)
    attempt.log.event("result", f"{result.outcome} {result.reason or ''}".strip())
    write_record(attempt.folder / "result.json", result)
    return result


def _write_trajectory(attempt: Attempt) -> None:
    """The trajectory in the field's exchange format, beside our own steps."""
    steps_path = attempt.folder / "agent" / "steps.jsonl"
    steps = list(read_lines(steps_path, Step)) if steps_path.exists() else []
    harness = attempt.trial.arm.harness
    serving = attempt.site.serving_of(attempt.trial.arm)
    trajectory = to_atif(
        attempt.record,
        instruction="\n\n".join(stage.instruction for stage in attempt.trial.task.stages),
        steps=steps,
        usage=attempt.usage,
        agent={
            "name": harness.name,
            "version": harness.version,
            "model_name": serving.identity.model if serving else None,
        },
    )
    steps_path.parent.mkdir(exist_ok=True)
    (steps_path.parent / "trajectory.json").write_text(json.dumps(trajectory, indent=1))
