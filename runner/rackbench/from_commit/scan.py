"""Looks through a history for commits that could become tasks, by what they touch; starts nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rackbench.from_commit.path_kind import PathKind, is_runnable_test, kind_of
from rackbench.from_commit.repository import Repository

_START = "\x1e"
_FIXES = re.compile(
    r"\b(?:fix(?:es|ed|ing)?|bug|regression|crash(?:es|ed)?|broken|incorrect|wrong(?:ly)?|"
    r"raise[sd]?|handle[sd]?|avoid[sd]?|prevent[sd]?|error|fail(?:s|ed|ure)?|leak[sd]?|"
    r"restore[sd]?|preserve[sd]?|ensure[sd]?|correct(?:ly|ed)?|race|deadlock|overflow)\b",
    re.IGNORECASE,
)
_NOT_FIXES = re.compile(
    r"^(?:merge|revert|release|bump|prepare|update (?:dev|project|requirements|pre-commit)|"
    r"start version|typo|docs?\b|chore|style|format|lint|refactor|rename|move|clean ?up|"
    r"drop (?:python|support)|add type|type annotations?)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(?:#|GH-|issue )\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a change may be to be a task."""

    source_lines: int = 300
    source_files: int = 12
    test_lines: int = 1500


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit that could become a task."""

    commit: str
    date: datetime
    subject: str
    score: float
    """Higher is likelier a fix that its tests tell."""
    source_files: int
    source_lines: int
    test_lines: int
    """Added and removed."""
    tests: tuple[str, ...]


@dataclass(slots=True)
class Scan:
    """What was found."""

    looked_at: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    """How many commits, by why they do not qualify."""


@dataclass(frozen=True, slots=True)
class _Touched:
    status: str
    added: int | None
    """Lines; None of a binary file."""
    removed: int | None
    path: str
    mode: str

    @property
    def lines(self) -> int:
        return (self.added or 0) + (self.removed or 0)


def scan(
    repository: Repository,
    *,
    last: int,
    limit: int,
    merges: bool = False,
    limits: Limits | None = None,
) -> Scan:
    """The likeliest of the last commits, best first, and why the others are left out.

    With `merges`, commits of the main line are taken, a merge as one change.
    """
    arguments = ["log", f"-n{last}", "-z", "--raw", "--numstat", "--no-renames", "--no-abbrev"]
    arguments += (
        ["--first-parent", "--diff-merges=first-parent"] if merges else ["--diff-merges=off"]
    )
    arguments.append(f"--format={_START}%H%x00%P%x00%ct%x00%s%x00%B%x00")
    output = repository.read(*arguments).decode(errors="surrogateescape")
    found = Scan()
    seen: set[tuple[object, ...]] = set()
    for part in output.split(_START)[1:]:
        commit, parents, seconds, subject, body, *rest = part.split("\0")
        found.looked_at += 1
        touched = list(_touched(rest))
        count = len(parents.split())
        why = _rejected(touched, parents=count, merges=merges, limits=limits or Limits())
        if why:
            found.rejected[why] += 1
            continue
        when = datetime.fromtimestamp(int(seconds), tz=UTC)
        candidate = _candidate(commit, when, subject, body, touched)
        same = (candidate.source_lines, candidate.test_lines, candidate.tests, subject.lower())
        if same in seen:
            found.rejected["the same change again"] += 1
            continue
        seen.add(same)
        found.candidates.append(candidate)
    # The newest first among equals, as they came.
    found.candidates.sort(key=lambda candidate: -candidate.score)
    if len(found.candidates) > limit:
        found.rejected["beyond the limit of candidates shown"] = len(found.candidates) - limit
        del found.candidates[limit:]
    return found


def _touched(fields: Sequence[str]) -> Iterator[_Touched]:
    """Rows of `--raw`, joined with those of `--numstat`, which follow them."""
    raw: dict[str, tuple[str, str]] = {}
    numbers: dict[str, tuple[int | None, int | None]] = {}
    at = 0
    while at < len(fields):
        text = fields[at].lstrip("\n")
        if text.startswith(":"):
            old_mode, new_mode, _, _, status = text[1:].split()
            raw[fields[at + 1]] = (status[0], old_mode if status[0] == "D" else new_mode)
            at += 1
        elif text.count("\t") == 2:
            added, removed, path = text.split("\t")
            numbers[path] = (_number(added), _number(removed))
        at += 1
    for path, (status, mode) in raw.items():
        yield _Touched(status, *numbers.get(path, (None, None)), path, mode)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _rejected(
    touched: Sequence[_Touched], *, parents: int, merges: bool, limits: Limits
) -> str | None:
    by_kind: dict[PathKind, list[_Touched]] = {kind: [] for kind in PathKind}
    for row in touched:
        by_kind[kind_of(row.path)].append(row)
    tests, source = by_kind[PathKind.TEST], by_kind[PathKind.SOURCE]
    told = any(row.status != "D" and row.added and is_runnable_test(row.path) for row in tests)
    reasons = (
        (parents == 0, "the first commit"),
        (parents > 1 and not merges, "a merge"),
        (not touched, "no change of files"),
        (not source and not tests, "nothing but documents, CI or dependencies"),
        (not source, "nothing but tests"),
        (not tests, "no test"),
        (any(row.mode == "160000" for row in touched), "a submodule"),
        (not told, "no lines added to a test"),
        (_lines(source) > limits.source_lines, f"more than {limits.source_lines} lines of code"),
        (len(source) > limits.source_files, f"more than {limits.source_files} files of code"),
        (_lines(tests) > limits.test_lines, f"more than {limits.test_lines} lines of tests"),
    )
    return next((why for applies, why in reasons if applies), None)


def _lines(rows: Sequence[_Touched]) -> int:
    return sum(row.lines for row in rows)


def _candidate(
    commit: str, when: datetime, subject: str, body: str, touched: Sequence[_Touched]
) -> Candidate:
    source = [row for row in touched if kind_of(row.path) is PathKind.SOURCE]
    tests = [row for row in touched if kind_of(row.path) is PathKind.TEST]
    lines = _lines(source)
    score = 3.0 * bool(_FIXES.search(subject)) + 1.0 * bool(_FIXES.search(body))
    score += 1.0 * bool(_REFERENCE.search(body))
    score -= 4.0 * bool(_NOT_FIXES.match(subject))
    # Small changes are likelier one fix; a change without new lines is likelier a cleaning.
    score += 1.0 * (lines <= 60) + 1.0 * (len(source) <= 3)
    score -= 2.0 * (not any(row.added for row in source))
    return Candidate(
        commit=commit,
        date=when,
        subject=subject,
        score=score,
        source_files=len(source),
        source_lines=lines,
        test_lines=_lines(tests),
        tests=tuple(row.path for row in tests if row.status != "D" and is_runnable_test(row.path)),
    )
