"""The image that the agent works in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from rackbench_tasks.dockerfile import Dockerfile
from rackbench_tasks.vendor_lint.bundle import Bundle, at
from rackbench_tasks.vendor_lint.commands import commands, installs
from rackbench_tasks.vendor_lint.finding import LintFinding, error, warning
from rackbench_tasks.vendor_lint.image_paths import made_paths, script_of
from rackbench_tasks.vendor_lint.recipe import recipe_rules
from rackbench_tasks.vendor_lint.taxonomy import is_reserved

FILE = "environment/Dockerfile"
_AREA = "agent-image"
_MEBIBYTE = 1024**2
_CONTEXT_BYTES = 100 * _MEBIBYTE
_FILE_BYTES = 50 * _MEBIBYTE
_TOOLS = ("tmux", "asciinema")
_FEW_BYTES = 64  # smaller files are alike by chance
_ANSWERS = re.compile(r"(^|/)(solve\.sh|test_outputs\.py|test_manifest\.json)$")


def agent_image(bundle: Bundle) -> Iterator[LintFinding]:
    """Its Dockerfile, and the files that it is built from."""
    dockerfile = bundle.dockerfile(FILE)
    if dockerfile is not None:
        yield from recipe_rules(bundle, FILE, _AREA)
        yield from _tools(dockerfile)
        yield from _reserved(dockerfile)
    yield from _sizes(bundle)
    yield from _answers(bundle)


def _tools(dockerfile: Dockerfile) -> Iterator[LintFinding]:
    runs = [script_of(one) for one in dockerfile.instructions if one.name == "RUN"]
    installed = {
        re.split(r"[=<>@]", install.package)[0]
        for run in runs
        for words in commands(run)
        for install in installs(words)
    }
    for tool in _TOOLS:
        if tool not in installed:
            yield error(
                f"{_AREA}/{tool}",
                FILE,
                f"installs no {tool}; without it the agents of this profile cannot run, and the "
                "verifier never does; install it",
            )


def _reserved(dockerfile: Dockerfile) -> Iterator[LintFinding]:
    for instruction, path in made_paths(dockerfile):
        if is_reserved(path):
            yield error(
                f"{_AREA}/reserved-path",
                at(FILE, instruction),
                f"makes or changes {path}, which belongs to the verifier or the oracle; "
                "use another path",
            )


def _sizes(bundle: Bundle) -> Iterator[LintFinding]:
    total = 0
    for path in bundle.files("environment"):
        size = (bundle.folder / path).lstat().st_size
        total += size
        if size > _FILE_BYTES:
            yield error(
                f"{_AREA}/file-size",
                path,
                f"has {size / _MEBIBYTE:.0f} MiB; at most 50 are allowed; make it smaller, or "
                "build it in the image",
            )
    if total > _CONTEXT_BYTES:
        yield error(
            f"{_AREA}/context-size",
            "environment",
            f"has {total / _MEBIBYTE:.0f} MiB; at most 100 are allowed; leave out what is not used",
        )


def _answers(bundle: Bundle) -> Iterator[LintFinding]:
    """Files of the verifier or the reference within the agent's reach."""
    hidden = {
        digest: path
        for folder in ("tests", "solution")
        for path in bundle.files(folder)
        if (digest := _digest(bundle, path))
    }
    alike: dict[str, list[str]] = {}
    for path in bundle.files("environment"):
        if _ANSWERS.search(path):
            yield error(
                f"{_AREA}/answer-in-context",
                path,
                "is named like a file of the verifier or the reference, and the agent can read "
                "it; keep it out of environment/",
            )
        elif twin := hidden.get(_digest(bundle, path) or ""):
            alike.setdefault(twin.partition("/")[0], []).append(path)
    for folder, paths in alike.items():
        more = f" and {len(paths) - 1} more files are" if len(paths) > 1 else " is"
        yield warning(
            f"{_AREA}/same-file",
            paths[0],
            f"this file{more} in {folder}/ as well, with the same content, and the agent can read "
            "what is to be kept from it; make sure that no answer can be told by it",
        )


def _digest(bundle: Bundle, path: str) -> str | None:
    file = bundle.folder / path
    if file.is_symlink() or not file.is_file():
        return None
    size = file.stat().st_size
    if not _FEW_BYTES <= size <= _FILE_BYTES or file.name in ("Dockerfile", ".dockerignore"):
        return None
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
