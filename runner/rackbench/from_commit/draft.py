"""A first version of the instruction, for a person to edit: it tells neither tests nor change."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rackbench.from_commit.fix import Fix
from rackbench.from_commit.path_kind import is_test

_TRAILER = re.compile(
    r"^(?:signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|cc|change-id|"
    r"reviewed-on|pull-request|pr-url|cherry[- ]picked from|\(cherry picked from)\b",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\s*\((?:GH-|gh-)?#\d+\)")
# A line that only points elsewhere, keeps the books, or divides what a merge squashed.
_NOTHING = re.compile(
    r"^(?:(?:(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?|refs?|see|issue):?\s*)?"
    r"(?:(?:(?:GH-)?#\d+|https?://\S*/(?:issues|pull)/\d+)[\s,.]*)+"
    r"|(?:add|update[sd]?|edit) \S+\.(?:md|rst|txt)|.*\b(?:changelog|news fragment|release notes?|versionchanged)\b.*|-{3,}|fixup!.*|wip)$",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"^(?:fix|feat|bug|bugfix|chore|refactor|perf)(?:\([^)]*\))?!?:\s*", re.IGNORECASE
)
_TEST_WORDS = re.compile(
    r"\b(?:add|adds|added|update[sd]?|extend(?:s|ed)?|new|fix(?:es|ed)?|write|with)\b[^.]*\btests?\b",
    re.IGNORECASE,
)
_DIFF = re.compile(r"^(?:diff --git|index [0-9a-f]|@@ |\+\+\+ |--- [ab]/|[+-](?![-+ ]).*;$)")
_COMMIT_ID = re.compile(r"\b[0-9a-f]{7,40}\b")


def draft_instruction(fix: Fix, *, issue: str | None, workdir: str) -> str:
    """What the agent is told, as far as it can be known from the message or the issue's text."""
    if issue is not None:
        told = issue.strip()
    else:
        subject = _REFERENCE.sub("", _PREFIX.sub("", fix.subject)).strip().rstrip(".")
        body = "\n".join(_kept(fix.message.splitlines()[1:], fix)).strip()
        told = f"# {subject[:1].upper()}{subject[1:]}\n\n{body}".strip()
    told = re.sub(r"\n{3,}", "\n\n", told)
    return (
        f"{told}\n\n"
        f"The project is in `{workdir}`, a git repository. Change it so that this holds, and so\n"
        "that everything else goes on working as it does. The result is judged by running tests.\n"
    )


def _kept(lines: Iterable[str], fix: Fix) -> Iterable[str]:
    names = {change.path for change in fix.tests} | {
        change.path.rpartition("/")[2] for change in fix.tests
    }
    subject = _REFERENCE.sub("", fix.subject).lower()
    for line in lines:
        bare = line.strip().lstrip("*- ")
        if _NOTHING.match(line.strip()) or _NOTHING.match(bare) or bare.lower() == subject:
            continue
        if _TRAILER.match(bare) or _DIFF.match(line) or _TEST_WORDS.search(bare):
            continue
        if any(name in line for name in names) or is_test(bare):
            continue
        yield _COMMIT_ID.sub("an earlier commit", _REFERENCE.sub("", line)).rstrip()
