"""Which answers a content gives away: the same, or most of an answer's own lines."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rackbench.check.answer import Answer, Kind
from rackbench.check.layers import ImageFiles

_SHARE = 0.8
"""Of an answer's own lines, from which another text holds it too."""
_LINES = 3
_LONE_BYTES = 40
_BY_LINES = frozenset({Kind.PRODUCED, Kind.SOLUTION})
_MAY_BE_INPUT = frozenset({Kind.DATA, Kind.TEST})


@dataclass(frozen=True, slots=True)
class Like:
    """An answer that a content gives away."""

    answer: Answer
    exact: bool
    shared: int = 0
    """Lines that both have."""
    own: int = 0
    """Lines of the answer that were not there before."""

    def words(self) -> str:
        """For a person."""
        if self.exact:
            return f"the same as {self.answer.name}"
        return f"holds {self.shared} of {self.own} lines of {self.answer.name}"


class Likeness:
    """Compares contents with the answers of one task.

    What the reference found before it began is no answer, nor are the lines of it.
    """

    def __init__(self, answers: Iterable[Answer], files: ImageFiles) -> None:
        answers = list(answers)
        names = [a.name.lstrip("/") for a in answers if a.kind is Kind.PRODUCED]
        before = [files[name] for name in names if name in files]
        known = {entry.digest for entry in before}
        lines = frozenset(line for entry in before for line in entry.lines)
        left = [answer for answer in answers if not _is_there_already(answer, files, known)]
        self._exact: dict[str, list[Answer]] = {}
        for answer in left:
            self._exact.setdefault(answer.digest, []).append(answer)
        own = [(answer, answer.lines - lines) for answer in left if answer.kind in _BY_LINES]
        self._own = [(answer, text) for answer, text in own if _is_telling(text)]

    def of(self, digest: str, lines: AbstractSet[bytes]) -> list[Like]:
        """The answers that a content gives away."""
        exact = [Like(answer, exact=True) for answer in self._exact.get(digest, ())]
        if not lines:
            return exact
        partial = [
            Like(answer, exact=False, shared=len(lines & own), own=len(own))
            for answer, own in self._own
            if answer.digest != digest and len(lines & own) >= _SHARE * len(own)
        ]
        return [*exact, *partial]


def _is_telling(own: AbstractSet[bytes]) -> bool:
    return len(own) >= _LINES or sum(map(len, own)) >= _LONE_BYTES


def _is_there_already(answer: Answer, files: ImageFiles, known: AbstractSet[str]) -> bool:
    """Whether it is no answer: the reference left it as it was, or it is an input."""
    if answer.kind is Kind.PRODUCED and (entry := files.get(answer.name.lstrip("/"))):
        return entry.digest == answer.digest
    return answer.kind in _MAY_BE_INPUT and answer.digest in known
