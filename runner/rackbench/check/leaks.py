"""No answer is reachable: not in the image's files, not in git, not beside the agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rackbench.check.answer import CODE, Answer, ImageLook, Kind
from rackbench.check.case import Case, Check
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.layers import Entry, ImageFiles
from rackbench.check.reference import plain_reference
from rackbench.check.repository import Blob

_NAMES = frozenset(
    {
        "test_outputs.py", "solve.sh", "solution.sh", "solution.yaml", "run-tests.sh",
        "reward.txt", "reward.json", "ctrf.json",
    }
)  # fmt: skip
_FOLDERS = ("tests/", "solution/", "oracle/", "logs/verifier/")
_SHARE = 0.8
"""Of an answer's own lines, from which another text holds it too."""
_LINES = 3
_LONE_BYTES = 40
_SHOWN = 20
_WRITTEN = {Kind.PRODUCED, Kind.SOLUTION}
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
    before = _before(look)
    by_digest: dict[str, list[str]] = {}
    with_lines = []
    for path, entry in look.files.items():
        if entry.kind == "file":
            by_digest.setdefault(entry.digest, []).append(path)
            if entry.lines:
                with_lines.append((path, entry))
    for answer in look.answers:
        if _is_there_already(answer, look.files, before):
            continue
        for path in by_digest.get(answer.digest, ()):
            yield _Leak(_EXACT[answer.kind], f"/{path}", f"the same as {answer.name}")
        if answer.kind in _WRITTEN:
            yield from _alike(answer, before.lines, with_lines)


def _alike(
    answer: Answer, before: AbstractSet[bytes], texts: Iterable[tuple[str, Entry]]
) -> Iterator[_Leak]:
    own = answer.lines - before
    if answer.kind is Kind.SOLUTION:
        level = Level.ERROR
    else:  # data may be drawn from an input, line by line
        level = Level.WARNING if answer.name.endswith(CODE) else Level.NOTE
    for path, entry in texts:
        if entry.digest != answer.digest and f"/{path}" != answer.name and _holds(entry.lines, own):
            shared = len(entry.lines & own)
            yield _Leak(level, f"/{path}", f"holds {shared} of {len(own)} lines of {answer.name}")


def _in_repositories(look: ImageLook) -> Iterator[_Leak]:
    before = _before(look)
    plain = {entry.digest for entry in look.files.values()}
    for repository in look.repositories:
        for blob in repository.blobs:
            if blob.digest in plain:
                continue  # looked at as a file
            for answer in look.answers:
                if not _is_there_already(answer, look.files, before):
                    yield from _in_blob(repository.path, blob, answer, before.lines)


def _in_blob(path: str, blob: Blob, answer: Answer, before: AbstractSet[bytes]) -> Iterator[_Leak]:
    own = answer.lines - before
    place = f"{path}, object {blob.id[:12]} {blob.where}"
    if blob.digest == answer.digest:
        level = Level.WARNING if answer.kind is Kind.DATA else _EXACT[answer.kind]
        yield _Leak(level, place, f"the same as {answer.name}")
    elif answer.kind in _WRITTEN and _holds(blob.lines, own):
        shared = len(blob.lines & own)
        yield _Leak(Level.ERROR, place, f"holds {shared} of {len(own)} lines of {answer.name}")


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


@dataclass(frozen=True, slots=True)
class _Before:
    """The files that the reference changes, as they were."""

    digests: frozenset[str]
    lines: frozenset[bytes]


def _before(look: ImageLook) -> _Before:
    names = [a.name.lstrip("/") for a in look.answers if a.kind is Kind.PRODUCED]
    entries = [look.files[name] for name in names if name in look.files]
    return _Before(
        frozenset(entry.digest for entry in entries),
        frozenset(line for entry in entries for line in entry.lines),
    )


def _is_there_already(answer: Answer, files: ImageFiles, before: _Before) -> bool:
    """Whether it is no answer: the reference left it as it was, or moved it."""
    if answer.kind is Kind.PRODUCED and (entry := files.get(answer.name.lstrip("/"))):
        return entry.digest == answer.digest
    return answer.kind in (Kind.DATA, Kind.TEST) and answer.digest in before.digests


def _holds(lines: AbstractSet[bytes], own: AbstractSet[bytes]) -> bool:
    if len(own) < _LINES and sum(map(len, own)) < _LONE_BYTES:
        return False
    return len(lines & own) >= _SHARE * len(own)


def _is_allowed(place: str, patterns: Iterable[str]) -> bool:
    path = place.partition(",")[0]
    return any(fnmatchcase(text, pattern) for text in (place, path) for pattern in patterns)


CHECK = Check(CheckName.ANSWER, plain_reference, _judge)
