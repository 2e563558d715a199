"""The `tests` folder of a task: the repository's own tests as the fix has them, and a judge."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template

from rackbench.errors import UsageError
from rackbench.from_commit.fix import Fix
from rackbench.from_commit.path_kind import (
    CONFIGURATION_FILES,
    folder_of_tests,
    is_runnable_test,
    steers_tests,
)
from rackbench.from_commit.repository import TreeEntry

KEPT = "every test that passed before still passes"
"""One line of the judge's report; passes for an agent that does nothing."""
_SHIPPED_BYTES = 20_000_000
_SHIPPED_FILES = 4000
_FIRST_LIMIT_SECONDS = 900
_LEAST_LIMIT_SECONDS = 60
_SLACK = 10
_IMPORT_FOLDERS = ("src", "lib")


@dataclass(frozen=True, slots=True)
class TestRun:
    """How a fix's tests are run, and what must come out."""

    __test__ = False

    workdir: str
    command: tuple[str, ...]
    """Of pytest, without files; empty where `shell` is the command."""
    shell: str = ""
    """Judged by its exit code."""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    limit_seconds: int = _FIRST_LIMIT_SECONDS

    @property
    def by_pytest(self) -> bool:
        """Whether there are results of single tests."""
        return not self.shell


def how_to_run(fix: Fix, test_command: str | None, workdir: str) -> TestRun:
    """How to run the tests of a fix.

    Raises UsageError where they are not for pytest and no command is given.
    """
    if test_command and "pytest" not in test_command:
        files = " ".join(map(shlex.quote, fix.runnable))
        return TestRun(workdir, (), shell=test_command.replace("{tests}", files))
    others = [path for path in fix.runnable if not path.endswith(".py")]
    if others and not test_command:
        raise UsageError(
            f"{others[0]} is no test for pytest; say how tests are run: --test-command COMMAND, "
            "with {tests} where the files stand"
        )
    command = (test_command or "python3 -m pytest").replace("{tests}", "")
    return TestRun(workdir, tuple(shlex.split(command)))


def unchanged(fix: Fix, files: Path) -> list[str]:
    """Shipped files that lie in the state before the fix as they are; the agent may see them."""
    before = {entry.path: entry.oid for entry in fix.repository.files(fix.parent)}
    return [
        entry.path
        for entry in fix.repository.files(fix.commit)
        if before.get(entry.path) == entry.oid and (files / entry.path).is_file()
    ]


def limit_for(seconds: float) -> int:
    """A time limit for tests that took so long here."""
    return max(_LEAST_LIMIT_SECONDS, math.ceil(seconds * _SLACK))


def write_verifier(fix: Fix, run: TestRun, folder: Path) -> None:
    """Write a task's `tests` folder, or write it anew."""
    tree = fix.repository.files(fix.commit)
    files = folder / "files"
    if not files.exists():
        _write_files(fix, _shipped(fix, tree, by_pytest=run.by_pytest), files)
    removed = [change.path for change in fix.tests if change.is_removal]
    if not run.by_pytest:
        _write_shell(run, removed, folder)
        return
    ours = resources.files("rackbench.from_commit") / "in_task"
    _write(folder / "test.sh", (ours / "test-pytest.sh").read_text(), mode=0o755)
    _write(folder / "judge.py", (ours / "judge.py").read_text())
    plugin = "plugin/rackbench_report.py"
    _write(folder / plugin, (ours / plugin).read_text())
    expected = {
        "workdir": run.workdir,
        "command": run.command,
        "files": fix.runnable,
        "removed": removed,
        "controls": [entry.path for entry in tree if steers_tests(entry.path)],
        "import_folders": [
            f for f in _IMPORT_FOLDERS if any(e.path.startswith(f"{f}/") for e in tree)
        ],
        "top_names": sorted(_top_names(entry.path for entry in tree)),
        "timeout_seconds": run.limit_seconds,
        "fail_to_pass": run.fail_to_pass,
        "pass_to_pass": run.pass_to_pass,
    }
    _write(folder / "expected.json", json.dumps(expected, indent=1) + "\n")


def solve_script(run: TestRun) -> str:
    """The reference solution's script."""
    text = (resources.files("rackbench.from_commit") / "in_task" / "solve.sh").read_text()
    return Template(text).substitute(workdir=shlex.quote(run.workdir))


def _write_shell(run: TestRun, removed: Sequence[str], folder: Path) -> None:
    text = (resources.files("rackbench.from_commit") / "in_task" / "test-command.sh").read_text()
    script = Template(text).substitute(
        workdir=shlex.quote(run.workdir),
        removals="\n".join(f"rm -rf -- {shlex.quote(path)}" for path in removed),
        timeout_seconds=run.limit_seconds,
        command=shlex.quote(run.shell),
    )
    _write(folder / "test.sh", script, mode=0o755)


def _shipped(fix: Fix, tree: Sequence[TreeEntry], *, by_pytest: bool) -> list[TreeEntry]:
    """Tests of the fix, and what lies in their folders beside tests that are not run."""
    changed = {change.path for change in fix.tests} | set(fix.runnable)
    folders = {folder for path in changed if (folder := folder_of_tests(path))}
    beside = {str(PurePosixPath(path).parent) for path in changed}
    wanted = [
        entry
        for entry in tree
        if not entry.is_submodule
        and (
            entry.path in changed
            or (folder_of_tests(entry.path) in folders and not is_runnable_test(entry.path))
            or (by_pytest and (steers_tests(entry.path) or entry.path in CONFIGURATION_FILES))
        )
    ]
    if sum(e.size_bytes for e in wanted) <= _SHIPPED_BYTES and len(wanted) <= _SHIPPED_FILES:
        return wanted
    return [
        entry
        for entry in wanted
        if entry.path in changed
        or steers_tests(entry.path)
        or (entry.path.endswith(".py") and str(PurePosixPath(entry.path).parent) in beside)
    ]


def _write_files(fix: Fix, entries: Sequence[TreeEntry], folder: Path) -> None:
    folder.mkdir(parents=True)
    contents = fix.repository.blobs(entry.oid for entry in entries)
    for entry in entries:
        target = folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.is_link:
            aim = contents[entry.oid].decode(errors="surrogateescape")
            inside = os.path.normpath(target.parent / aim).startswith(f"{folder}{os.sep}")
            if inside and not aim.startswith("/"):
                target.symlink_to(aim)
            continue
        target.write_bytes(contents[entry.oid])
        target.chmod(0o755 if entry.mode == "100755" else 0o644)


def _top_names(paths: Iterable[str]) -> set[str]:
    """What lies at the top of the tree and of the folders that are imported from."""
    found = set()
    for path in paths:
        first, _, rest = path.partition("/")
        found.add(first)
        if first in _IMPORT_FOLDERS and rest:
            found.add(f"{first}/{rest.partition('/')[0]}")
    return found


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
