"""A task's folder: its name, its digest, its scripts and what stands at the top of a text."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from rackbench_tasks.digest import task_digest
from rackbench_tasks.files import read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.problem import TaskError

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_CANARY = re.compile(
    # A heading about canaries is the author's; a line that carries the marker's GUID is not.
    r"\s*(?:<!--(?:(?!-->).)*?canary(?:(?!-->).)*-->|#[^\n]*\bcanary guid\b[^\n]*)[^\S\n]*(?:\n|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_FIRST_LINE_BYTES = 4096


def task_name(folder: Path, findings: Findings) -> str:
    """The folder's name, made safe for tables, result folders and images."""
    name = _UNSAFE.sub("-", folder.name).strip("-.")
    if not name:
        findings.problem("no letter or digit in the folder's name is left for a task's name")
    return name


def digest_of(folder: Path, findings: Findings) -> str:
    """The task's digest; empty where a file cannot be part of a task."""
    try:
        return task_digest(folder)
    except TaskError as error:
        findings.problems.extend(error.problems)
        return ""


def text_of(path: Path, findings: Findings) -> str | None:
    """A text that the task has to have, without marks for trainers; None where it has not."""
    try:
        return without_canary(read_text(path))
    except TaskError as error:
        findings.problems.extend(error.problems)
        return None


def without_canary(text: str) -> str:
    """An instruction without the markers at its top that tell trainers to leave it out."""
    start = 0
    while match := _CANARY.match(text, start):
        start = match.end()
    return text[start:].lstrip("\n") if start else text


def first_line(path: Path) -> bytes:
    """The first line of a script, without its end; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.readline(_FIRST_LINE_BYTES).rstrip(b"\r\n")
    except OSError:
        return b""  # the digest, which reads every file, reports it


def script_bytes(script: Path, folder: Path, findings: Findings) -> bytes:
    """A script's content as Linux runs it: without a byte order mark, with Unix line ends."""
    warn_of_line_ends(script, folder, findings)
    try:
        content = script.read_bytes()
    except OSError:
        return b""  # the digest, which reads every file, reports it
    return content.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


def run_of(script: Path, target: str) -> tuple[str, ...]:
    """How a script is run that lies at `target` in the sandbox: by bash unless it says by what."""
    return (target,) if first_line(script).startswith(b"#!") else ("bash", target)


def warn_of_line_ends(script: Path, folder: Path, findings: Findings) -> None:
    """Say that a script is not taken as it is, where Linux would not run it."""
    try:
        with script.open("rb") as file:
            is_windows = file.readline(_FIRST_LINE_BYTES).endswith(b"\r\n")
    except OSError:
        return
    if is_windows:
        findings.warning(
            f"{script.relative_to(folder)} has Windows line ends; it is run with Unix ones"
        )
