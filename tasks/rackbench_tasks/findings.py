"""What a reader comes across: problems that end it, and warnings that do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    lines: Mapping[str, int] = field(default_factory=dict)
    """By path of a key, the line of the file in which it stands."""

    def problem(self, text: str, *, key: str = "") -> None:
        """Note what makes it unusable, and the path of the key that is to blame."""
        self.problems.append(f"{self._place(key)}: {text}")

    def warning(self, text: str, *, key: str = "") -> None:
        """Note what is odd, and can be lived with."""
        self.warnings.append(one_line(f"{self._place(key)}: {text}"))

    def _place(self, key: str) -> str:
        while key:
            if key in self.lines:
                return f"{self.origin}:{self.lines[key]}"
            key = key.rpartition(".")[0]  # what is missing is missing from its table
        return self.origin

    def unknown(self, keys: Iterable[UnknownKey], *, strict: bool) -> None:
        """Note keys that nothing reads; those meant as a limit are problems in any case."""
        for key in keys:
            if key.is_limit:
                self.problem(
                    f"unknown key {key.path!r} is meant as a limit, and would not hold; {key.hint}",
                    key=key.path,
                )
            elif strict:
                self.problem(f"unknown key {key.path!r}; {key.hint}", key=key.path)
            else:
                self.warning(f"unknown key {key.path!r} is ignored; {key.hint}", key=key.path)

    def raise_problems(self, others: Sequence[str] = ()) -> None:
        """Raise TaskError with all problems, where there are any."""
        if problems := [*self.problems, *others]:
            raise TaskError(*dict.fromkeys(problems))
