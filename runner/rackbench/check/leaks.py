"""No answer is reachable: not in the image's files, not in git, not beside the agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rackbench.check.answer import CODE, Kind
from rackbench.check.case import Case, Check
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.image_look import ImageLook
from rackbench.check.likeness import Like, Likeness
from rackbench.check.reference import plain_reference

_NAMES = frozenset(
    {
        "test_outputs.py", "solve.sh", "solution.sh", "solution.yaml", "run-tests.sh",
        "reward.txt", "reward.json", "ctrf.json",
    }
)  # fmt: skip
_FOLDERS = ("tests/", "solution/", "oracle/", "logs/verifier/")
_SHOWN = 20
_EXACT = {
    Kind.PRODUCED: Level.ERROR,
    Kind.SOLUTION: Level.ERROR,
    Kind.VERDICT: Level.ERROR,
    Kind.EXPECTED: Level.ERROR,
    Kind.TEST: Level.WARNING,
    Kind.DATA: Level.NOTE,
}
_HOW = {
    Level.ERROR: (
        "the answer can be found where the agent works; take it out, or name the place in "
        "[metadata.check] reachable if finding it is the task"
    ),
    Level.WARNING: "parts of the tests or of the answer may be found where the agent works",
    Level.NOTE: "data of the tests or of the answer are in the image too; fine if it is the input",
}


@dataclass(frozen=True, slots=True)
class _Leak:
    level: Level
    place: str
    what: str

    def line(self) -> str:
        return f"{self.place}: {self.what}"


def _judge(case: Case) -> list[Finding]:
    look = case.image
    if look is None or look.problem:
        why = look.problem if look else "no attempt came to have an image"
        text = f"the image could not be looked through: {why}"
        return [Finding(CheckName.ANSWER, Level.NOTE, text)]
    leaks = [*_in_files(look), *_in_repositories(look), *_by_name(look), *_beside_agent(look)]
    allowed = case.allowances.reachable
    left = [leak for leak in leaks if not _is_allowed(leak.place, allowed)]
    return [*_by_level(left), *_not_looked_at(look)]


def _by_level(leaks: Sequence[_Leak]) -> Iterator[Finding]:
    """One finding a level; a place is told once, at its weightiest."""
    told: set[str] = set()
    for level in Level:
        found = [leak for leak in leaks if leak.level is level and leak.place not in told]
        told |= {leak.place for leak in found}
        if found:
            lines = tuple(dict.fromkeys(leak.line() for leak in found))
            yield Finding(CheckName.ANSWER, level, _HOW[level], lines[:_SHOWN])


def _not_looked_at(look: ImageLook) -> Iterator[Finding]:
    for repository in look.repositories:
        if repository.problem:
            text = f"{repository.path} could not be looked through: {repository.problem}"
            yield Finding(CheckName.ANSWER, Level.NOTE, text)
    if look.left_out:
        text = f"{len(look.left_out)} files that the reference changed were too large to look for"
        yield Finding(CheckName.ANSWER, Level.NOTE, text, look.left_out[:_SHOWN])


def _in_files(look: ImageLook) -> Iterator[_Leak]:
    likeness = Likeness(look.answers, look.files)
    for path, entry in look.files.items():
        if entry.kind == "file":
            for like in likeness.of(entry.digest, entry.lines):
                if like.answer.name != f"/{path}":
                    yield _Leak(_level(like), f"/{path}", like.words())


def _level(like: Like) -> Level:
    if like.exact:
        return _EXACT[like.answer.kind]
    if like.answer.kind is Kind.SOLUTION:
        return Level.ERROR
    # Data may be drawn from an input, line by line.
    return Level.WARNING if like.answer.name.endswith(CODE) else Level.NOTE


def _in_repositories(look: ImageLook) -> Iterator[_Leak]:
    for repository in look.repositories:
        for blob in repository.blobs:
            place = f"{repository.path}, object {blob.id[:12]} {blob.where}"
            for like in blob.likes:
                level = _EXACT[like.answer.kind] if like.exact else Level.ERROR
                yield _Leak(level, place, like.words())


def _by_name(look: ImageLook) -> Iterator[_Leak]:
    for path, entry in look.files.items():
        if entry.kind != "file":
            continue
        if path.rpartition("/")[2] in _NAMES:
            yield _Leak(Level.ERROR, f"/{path}", "has a name of the reference or of the verifier")
        elif path.startswith(_FOLDERS):
            yield _Leak(Level.ERROR, f"/{path}", "lies in a folder of the reference or verifier")


def _beside_agent(look: ImageLook) -> Iterator[_Leak]:
    for path in look.visible:
        if path.lstrip("/") not in look.files:
            yield _Leak(Level.ERROR, path, "could be read by the agent before it began")


def _is_allowed(place: str, patterns: Iterable[str]) -> bool:
    path = place.partition(",")[0]
    return any(fnmatchcase(text, pattern) for text in (place, path) for pattern in patterns)


CHECK = Check(CheckName.ANSWER, plain_reference, _judge)
