"""Which files there are, and what none of them may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackbench_tasks.vendor_lint.bundle import Bundle
from rackbench_tasks.vendor_lint.finding import LintFinding, error, warning

_REQUIRED = {
    "task.toml": "the settings",
    "instruction.md": "what the agent is told",
    "environment/Dockerfile": "the agent's image",
    "solution/solve.sh": "the reference",
    "tests/Dockerfile": "the verifier's own image, since it is judged in a container apart",
    "tests/test.sh": "what judges",
    "tests/test_outputs.py": "the tests",
    "tests/test_manifest.json": "the list of the tests",
}
_TOP = frozenset({"task.toml", "instruction.md", "environment", "solution", "tests"})
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_UNSPEAKING = frozenset({"task", "test", "bundle"})
_CANARY = re.compile(r"canary[ _-]?(guid|string|id)|should never appear in training", re.IGNORECASE)
_GUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_CRUFT = re.compile(r"(^|/)(\.DS_Store|__MACOSX|\._[^/]*|\.git|__pycache__|[^/]*\.pyc)(/|$)")
_SCAFFOLDING = re.compile(r"(^|/)(CLAUDE\.md|AGENTS\.md|skills\.md|\.cursor|\.claude|\.aider)(/|$)")


def layout(bundle: Bundle) -> Iterator[LintFinding]:
    """Names, required files, files that must not be there, canaries."""
    yield from _slug(bundle.slug)
    for path, what in _REQUIRED.items():
        file = bundle.folder / path
        if not file.is_file():
            yield error("layout/missing-file", path, f"is missing: {what}; write it")
        elif not file.stat().st_size:
            yield error("layout/empty-file", path, f"is empty: {what}; write it")
    for entry in sorted(bundle.folder.iterdir()):
        if entry.name not in _TOP and not _CRUFT.search(entry.name):
            yield error(
                "layout/unknown-entry",
                entry.name,
                f"does not belong into a task; only {', '.join(sorted(_TOP))} do; move it out",
            )
    for path in bundle.files():
        yield from _of_file(bundle, path)


def _slug(slug: str) -> Iterator[LintFinding]:
    if not _SLUG.fullmatch(slug):
        yield error(
            "layout/slug",
            slug,
            "the folder's name is not lower case with hyphens, such as ledger-drift-repair; "
            "rename the folder",
        )
    elif re.sub(r"[0-9-]", "", slug) in _UNSPEAKING:
        yield error(
            "layout/slug", slug, "the folder's name does not say what the task is; rename it"
        )


def _of_file(bundle: Bundle, path: str) -> Iterator[LintFinding]:
    if _CRUFT.search(path):
        yield error("layout/cruft", path, "is left over from a tool; delete it")
        return
    if _SCAFFOLDING.search(path):
        yield warning(
            "layout/scaffolding", path, "is meant for a coding assistant; delete it unless the "
            "task is about such a file"
        )  # fmt: skip
    for number, line in enumerate((bundle.text(path) or "").splitlines(), start=1):
        if _CANARY.search(line) or (path == "instruction.md" and _GUID.search(line)):
            yield error(
                "layout/canary",
                f"{path}:{number}",
                "holds a canary, or an identifier that looks like one; none may be in a task, "
                "since it may be used for training; delete it here, and wherever else it is",
            )
            return
