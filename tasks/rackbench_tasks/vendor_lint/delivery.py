"""The siblings of the task's folder in what is delivered."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rackbench_tasks.vendor_lint.bundle import Bundle
from rackbench_tasks.vendor_lint.evidence import (
    EVIDENCE,
    RUNS,
    TRAJECTORIES,
    evidence_rules,
    read_judged,
    run_rules,
)
from rackbench_tasks.vendor_lint.finding import LintFinding, error
from rackbench_tasks.vendor_lint.rubric import rubric_rules

_RUBRIC = "rubric.txt"
_SIBLINGS = (_RUBRIC, EVIDENCE, TRAJECTORIES)
_SUMMARY = f"{TRAJECTORIES}/SUMMARY.txt"
_HASHED = ("environment", "instruction.md", "solution", "task.toml", "tests")


def delivery_rules(bundle: Bundle, tests: Sequence[str]) -> Iterator[LintFinding]:
    """Rules of a delivery; nothing where the folder stands alone."""
    parent = bundle.folder.parent
    present = [name for name in _SIBLINGS if (parent / name).exists()]
    if not present:
        return
    for name in _SIBLINGS:
        if name not in present:
            yield error("delivery/missing", f"../{name}", "is missing beside the task's folder")
    for entry in sorted(parent.iterdir()):
        if entry.name not in (*_SIBLINGS, bundle.slug):
            yield error(
                "delivery/unknown-entry", f"../{entry.name}", "does not belong into a delivery"
            )
    if _RUBRIC in present:
        yield from rubric_rules((parent / _RUBRIC).read_text(errors="replace"))
    if EVIDENCE in present:
        yield from evidence_rules(parent, tests)
    if TRAJECTORIES in present:
        yield from run_rules(parent, tests)
        yield from _summary(bundle, parent)


def bundle_hash(folder: Path) -> str:
    """16 hex digits over the files of a task.

    They begin the sha256 over one line for each file, `sha256  path`, in order of the paths.
    """
    paths: list[str] = []
    for name in _HASHED:
        top = folder / name
        below = [top] if top.is_file() else top.rglob("*")
        paths += [
            path.relative_to(folder).as_posix()
            for path in below
            if path.is_file() and not path.is_symlink()
        ]
    lines = b""
    for path in sorted(map(os.fsencode, paths)):
        with (folder / os.fsdecode(path)).open("rb") as file:
            lines += hashlib.file_digest(file, "sha256").hexdigest().encode() + b"  " + path + b"\n"
    return hashlib.sha256(lines).hexdigest()[:16]


def _summary(bundle: Bundle, parent: Path) -> Iterator[LintFinding]:
    where = f"../{_SUMMARY}"
    file = parent / _SUMMARY
    if not file.is_file():
        yield error("delivery/missing-file", where, "is missing; write its two lines")
        return
    lines = file.read_text(errors="replace").rstrip("\n").split("\n")
    words = lines[0].split()
    if len(lines) != 2 or len(words) != 4 or not re.fullmatch(r"[0-9a-f]{16}", words[1]):
        yield error(
            "delivery/summary",
            where,
            "must have two lines: slug, 16 digits of the bundle's hash, model and effort; and the "
            "list of the rewards",
        )
        return
    if words[0] != bundle.slug:
        yield error("delivery/summary", f"{where}:1", f"is of {words[0]}, not of {bundle.slug}")
    if (found := bundle_hash(bundle.folder)) != words[1]:
        yield error(
            "delivery/bundle-hash",
            f"{where}:1",
            f"has the hash {words[1]}, and the task's files make {found}: something has changed "
            "since these runs; run anew",
        )
    yield from _rewards(lines[1], f"{where}:2", parent)


def _rewards(line: str, where: str, parent: Path) -> Iterator[LintFinding]:
    try:
        rewards = [float(reward) for reward in json.loads(line)]
    except (ValueError, TypeError):
        yield error("delivery/summary", where, "is no list of rewards such as [0, 1, 0, 0, 0]")
        return
    written = [read_judged(parent / TRAJECTORIES / name / "verifier").reward for name in RUNS]
    if rewards != written:
        shown = ", ".join("none" if reward is None else f"{reward:g}" for reward in written)
        yield error(
            "delivery/summary-rewards", where, f"differs from what the runs have: [{shown}]"
        )
    if len(rewards) == len(RUNS) and all(reward == 1 for reward in rewards):
        yield error(
            "delivery/too-easy",
            where,
            "the model solved five of five, which is not accepted; make the task harder",
        )
