"""What a check judges: a task, and what was seen of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rackbench.check.finding import CheckName, Finding
from rackbench.check.image_look import ImageLook
from rackbench.check.options import Allowances, CheckOptions
from rackbench.check.variant import Variant
from rackbench_results.outcomes import Outcome
from rackbench_results.records import Result
from rackbench_tasks import Task

_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Seen:
    """One attempt, and where its files are."""

    variant: Variant
    result: Result
    folder: Path

    @property
    def solved(self) -> bool:
        """The verifier was satisfied."""
        return self.result.outcome is Outcome.SOLVED

    def words(self) -> str:
        """How it ended, in a line."""
        result = self.result
        reward = "–" if result.reward is None else f"{result.reward:g}"
        reason = f" ({result.reason}: {result.detail})" if result.reason else ""
        return f"{result.outcome}, reward {reward}{reason}"

    def verifier_output(self) -> str:
        """What the tests printed, of all stages."""
        texts = [path.read_text(errors="replace") for path in self.files_named("test-stdout.txt")]
        return "\n".join(texts)

    def files_named(self, name: str) -> list[Path]:
        """Files that the verifier wrote; what the agent left is not among them."""
        found = sorted(self.folder.rglob(name))
        agents = ("agent", "artifacts")
        return [f for f in found if not set(agents) & set(f.relative_to(self.folder).parts[:-1])]

    def evidence(self) -> tuple[str, ...]:
        """Where it can be read, what was varied, and the last words of the tests."""
        lines = [line for line in self.verifier_output().splitlines() if line.strip()]
        shown = [f"  {line[:200]}" for line in lines[-_SHOWN_LINES:]]
        varied = [f"varied: {', '.join(self.variant.varied)}"] if self.variant.varied else []
        return (str(self.folder), *varied, *shown)


@dataclass(frozen=True, slots=True)
class Case:
    """One task before its judges."""

    task: Task
    options: CheckOptions
    allowances: Allowances
    attempts: Mapping[str, Seen]
    """By arm; what did not finish is missing."""
    image: ImageLook | None
    """None where no attempt came to have an image."""

    def named(self, beginning: str) -> list[Seen]:
        """Attempts whose arm begins so, by name."""
        return [self.attempts[arm] for arm in sorted(self.attempts) if arm.startswith(beginning)]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to prove of a task."""

    name: CheckName
    variants: Callable[[Task], Sequence[Variant]]
    """The attempts it needs; those of one name are made once, whoever needs them."""
    judge: Callable[[Case], Sequence[Finding]]
