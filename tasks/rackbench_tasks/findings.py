"""What a reader comes across: problems that end it, and warnings that do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rackbench_tasks.keys import UnknownKey
from rackbench_tasks.problem import TaskError, one_line


@dataclass(frozen=True, slots=True)
class Findings:
    """Collected over one file, so that all of it is told at once."""

    origin: str
    """What each line begins with: the file or folder that was read."""
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        """Note what makes it unusable."""
        self.problems.append(f"{self.origin}: {text}")

    def warning(self, text: str) -> None:
        """Note what is odd, and can be lived with."""
        self.warnings.append(one_line(f"{self.origin}: {text}"))

    def unknown(self, keys: Iterable[UnknownKey], *, strict: bool) -> None:
        """Note keys that nothing reads; those meant as a limit are problems in any case."""
        for key in keys:
            if key.is_limit:
                self.problem(
                    f"unknown key {key.path!r} is meant as a limit, and would not hold; {key.hint}"
                )
            elif strict:
                self.problem(f"unknown key {key.path!r}; {key.hint}")
            else:
                self.warning(f"unknown key {key.path!r} is ignored; {key.hint}")

    def raise_problems(self, others: Sequence[str] = ()) -> None:
        """Raise TaskError with all problems, where there are any."""
        if problems := [*self.problems, *others]:
            raise TaskError(*problems)
