"""The image is no larger than it may be, and comes out the same when it is built again."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from rackbench.check.case import Case, Check
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.layers import ImageFiles
from rackbench.check.reference import idle

_MEGABYTE = 1024 * 1024
_DEFAULT_MB = 10240
_SHOWN = 20
# What programs write about themselves: it differs from build to build, and no task depends on it.
_NOISE = (
    "var/log/*", "var/cache/*", "var/lib/apt/*", "var/lib/dpkg/*-old", "etc/*-", "etc/shadow",
    "etc/machine-id", "var/lib/dbus/machine-id", "root/.cache/*", "root/.npm/*", "*.git/index", "tmp/*", "*/__pycache__/*", "*.pyc",
)  # fmt: skip
_NO_NETWORK = re.compile(
    r"resolv|unreachable|connection (?:refused|timed out|reset)|name or service not known"
    r"|failed to fetch|no route to host|getaddrinfo|max retries exceeded|i/o timeout",
    re.IGNORECASE,
)
_GIT = ("*/.git/*", ".git/*")


def _judge_size(case: Case) -> list[Finding]:
    if case.image is None or not case.image.size_bytes:
        return []
    own_bytes = case.task.environment.storage_bytes
    limit_mb = case.options.max_image_mb or (own_bytes or _DEFAULT_MB * _MEGABYTE) // _MEGABYTE
    size_mb = case.image.size_bytes / _MEGABYTE
    if size_mb <= limit_mb:
        return []
    text = f"the image has {size_mb:.0f} MB, the limit is {limit_mb} (--max-image-mb)"
    return [Finding(CheckName.SIZE, Level.ERROR, text)]


def _judge_rebuild(case: Case) -> list[Finding]:
    look = case.image
    if look is None or look.problem:
        why = look.problem if look else "no attempt came to have an image"
        return [Finding(CheckName.REBUILD, Level.NOTE, f"the image was not built again: {why}")]
    if look.rebuild_problem:
        lines = tuple(look.rebuild_problem.splitlines())
        if _NO_NETWORK.search(look.rebuild_problem):
            text = "the image was not built again: its recipe needs the network (--no-rebuild)"
            return [Finding(CheckName.REBUILD, Level.WARNING, text, lines)]
        text = "the image cannot be built again without a cache"
        return [Finding(CheckName.REBUILD, Level.ERROR, text, lines)]
    if look.rebuilt is None:
        text = "there is no recipe to build again: a finished image, or one of a compose project"
        return [Finding(CheckName.REBUILD, Level.NOTE, text)]
    allowed = case.allowances.varies
    differing = [
        (path, how)
        for path, how in _differences(look.files, look.rebuilt)
        if not _matches(f"/{path}", allowed)
    ]
    noise = [line for line in differing if _matches(line[0], _NOISE)]
    git = [line for line in differing if line not in noise and _matches(line[0], _GIT)]
    rest = [line for line in differing if line not in noise and line not in git]
    return [
        *_finding(
            Level.ERROR, rest, "built again, the image is another: {} files differ; pin what they "
            "come from, or name them in [metadata.check] varies",
        ),
        *_finding(
            Level.WARNING, git, "built again, {} files of git differ; set GIT_AUTHOR_DATE and "
            "GIT_COMMITTER_DATE where the image commits",
        ),
        *_finding(Level.NOTE, noise, "built again, {} logs and caches differ"),
    ]  # fmt: skip


def _differences(one: ImageFiles, other: ImageFiles) -> list[tuple[str, str]]:
    found = []
    for path in sorted({*one, *other}):
        first, second = one.get(path), other.get(path)
        if first is second:
            continue
        if first is None or second is None:
            found.append((path, "only after the second build" if first is None else "gone"))
        elif not first.same_as(second):
            found.append((path, _how(first.digest == second.digest)))
    return found


def _how(same_content: bool) -> str:
    return "another owner, mode or target" if same_content else "another content"


def _finding(level: Level, lines: list[tuple[str, str]], text: str) -> list[Finding]:
    if not lines:
        return []
    evidence = tuple(f"/{path}: {how}" for path, how in lines[:_SHOWN])
    return [Finding(CheckName.REBUILD, level, text.format(len(lines)), evidence)]


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


SIZE = Check(CheckName.SIZE, idle, _judge_size)
REBUILD = Check(CheckName.REBUILD, idle, _judge_rebuild)
