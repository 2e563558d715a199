"""The image is no larger than it may be, and comes out the same when it is built again."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from rackbench.check.case import Case, Check
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.image_look import BuiltImage
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
    own_bytes = case.task.environment.storage_bytes
    limit_mb = case.options.max_image_mb or (own_bytes or _DEFAULT_MB * _MEGABYTE) // _MEGABYTE
    found = []
    for image in case.image.built if case.image else ():
        size_mb = image.size_bytes / _MEGABYTE
        if size_mb > limit_mb:
            text = f"{image.name} has {size_mb:.0f} MB, the limit is {limit_mb} (--max-image-mb)"
            found.append(Finding(CheckName.SIZE, Level.ERROR, text))
    return found


def _judge_rebuild(case: Case) -> list[Finding]:
    if case.image is None:
        text = "the image was not built again: no attempt came to have one"
        return [Finding(CheckName.REBUILD, Level.NOTE, text)]
    allowed = case.allowances.varies
    return [found for image in case.image.built for found in _judge_image(image, allowed)]


def _judge_image(image: BuiltImage, allowed: tuple[str, ...]) -> list[Finding]:
    if image.problem:
        return [_told(Level.NOTE, f"{image.name} was not compared: {image.problem}")]
    if image.rebuild_problem:
        lines = tuple(image.rebuild_problem.splitlines())
        if _NO_NETWORK.search(image.rebuild_problem):
            text = f"{image.name} was not built again: its recipe needs the network (--no-rebuild)"
            return [_told(Level.WARNING, text, lines)]
        return [_told(Level.ERROR, f"{image.name} cannot be built again without a cache", lines)]
    if image.rebuilt is None:
        text = f"{image.name} has no recipe to build again: it is named, or a compose project's"
        return [_told(Level.NOTE, text)]
    differing = [
        (path, how)
        for path, how in _differences(image.files, image.rebuilt)
        if not _matches(f"/{path}", allowed)
    ]
    noise = [line for line in differing if _matches(line[0], _NOISE)]
    git = [line for line in differing if line not in noise and _matches(line[0], _GIT)]
    rest = [line for line in differing if line not in noise and line not in git]
    told = (
        (
            Level.ERROR,
            rest,
            (
                "is another: {} files differ; pin what they come from, or name them in "
                "[metadata.check] varies"
            ),
        ),
        (
            Level.WARNING,
            git,
            (
                "differs in {} files of git; set GIT_AUTHOR_DATE and GIT_COMMITTER_DATE where it "
                "commits"
            ),
        ),
        (Level.NOTE, noise, "differs in {} logs and caches"),
    )
    return [
        _told(
            level,
            f"built again, {image.name} {text.format(len(lines))}",
            tuple(f"/{path}: {how}" for path, how in lines[:_SHOWN]),
        )
        for level, lines, text in told
        if lines
    ]


def _told(level: Level, text: str, evidence: tuple[str, ...] = ()) -> Finding:
    return Finding(CheckName.REBUILD, level, text, evidence)


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


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


SIZE = Check(CheckName.SIZE, idle, _judge_size)
REBUILD = Check(CheckName.REBUILD, idle, _judge_rebuild)
