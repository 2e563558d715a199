"""Judges the work tree by the repository's own tests: 1 where all that must pass do, else 0."""

from __future__ import annotations

import json
import os
import shutil
import signal
import site
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

TESTS = Path("/tests")
LOGS = Path("/logs/verifier")
NOBODY = 65534
# What the tests run must not be able to write the verdict.
AS_NOBODY: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
KEPT = "every test that passed before still passes"
CONTROLS = ("conftest.py", "pytest.ini", "pytest.toml", "sitecustomize.py", "usercustomize.py")


def main() -> int:
    """Put the tests in place, run them without any rights, and compare."""
    wanted = json.loads((TESTS / "expected.json").read_text())
    tree = Path(wanted["workdir"])
    if tree.is_symlink() or not tree.is_dir():
        say(f"there is no folder {tree}")
        return 1
    take_away(tree, wanted)
    put_in_place(TESTS / "files", tree)
    found = run_tests(tree, wanted)
    (LOGS / "results.json").write_text(json.dumps(found, indent=1, sort_keys=True))
    rows = [(name, found.get(name) == "passed") for name in wanted["fail_to_pass"]]
    lost = [name for name in wanted["pass_to_pass"] if found.get(name) != "passed"]
    if wanted["pass_to_pass"]:
        rows.append((KEPT, not lost))
    for name in lost:
        say(f"passed before and does not now: {name} ({found.get(name, 'not run')})")
    for name, good in rows:
        say(f"{'PASSED' if good else 'FAILED'} {name}")
    report(rows)
    solved = bool(wanted["fail_to_pass"]) and all(good for _, good in rows)
    (LOGS / "reward.txt").write_text("1\n" if solved else "0\n")
    return 0


def take_away(tree: Path, wanted: dict[str, Any]) -> None:
    """Remove tests that the fix removed, and files that could steer the tests from outside."""
    for name in wanted["removed"]:
        clear(tree / name, tree)
    tracked = set(wanted["controls"])
    for folder, _, names in os.walk(tree):
        for name in names:
            path = Path(folder, name)
            if name.lstrip(".") in CONTROLS and path.relative_to(tree).as_posix() not in tracked:
                say(f"removed {path}, which is no part of the project")
                path.unlink()
    for top in {tree, *(tree / name for name in wanted["import_folders"])}:
        for path in top.glob("*") if top.is_dir() else ():
            own = path.relative_to(tree).as_posix()
            if own not in wanted["top_names"] and path.stem.isidentifier() and shadows(path):
                say(f"removed {path}, which hides a module of Python")
                clear(path, tree)


def shadows(path: Path) -> bool:
    """Whether a file or folder would be imported instead of something installed."""
    if path.is_file() and path.suffix not in (".py", ".so"):
        return False
    name = path.name.partition(".")[0]
    elsewhere = [*sys.path, *site.getsitepackages()]
    return name in sys.builtin_module_names or PathFinder.find_spec(name, elsewhere) is not None


def put_in_place(source: Path, tree: Path) -> None:
    """Copy the tests over whatever is there."""
    for path in sorted(source.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        target = tree / path.relative_to(source)
        clear(target, tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)


def clear(target: Path, tree: Path) -> None:
    """Make room for a file: nothing of that name, and no link or file among its folders."""
    for path in reversed([target, *target.parents]):
        if tree not in path.parents:
            continue
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
        elif path == target and path.is_dir():
            shutil.rmtree(path)


def run_tests(tree: Path, wanted: dict[str, Any]) -> dict[str, str]:
    """What became of each test, by its id."""
    work = Path("/tmp/rackbench-tests")  # noqa: S108  # in a sandbox of its own
    shutil.rmtree(work, ignore_errors=True)
    (work / "home").mkdir(parents=True)
    shutil.copytree(TESTS / "plugin", work / "plugin")
    drop = os.geteuid() == 0
    if drop:
        for folder in (tree, work):
            subprocess.run(["chown", "-hR", f"{NOBODY}:{NOBODY}", str(folder)], check=True)
    paths = [str(work / "plugin"), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "HOME": str(work / "home"),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "RACKBENCH_REPORT": str(work / "report.jsonl"),
    }
    command = [*wanted["command"], "-p", "rackbench_report", *wanted["files"]]
    say(" ".join(command))
    with subprocess.Popen(
        command, cwd=tree, env=env, start_new_session=True, **(AS_NOBODY if drop else {})
    ) as tests:
        try:
            tests.wait(timeout=wanted["timeout_seconds"])
        except subprocess.TimeoutExpired:
            say(f"the tests did not end within {wanted['timeout_seconds']} s")
            os.killpg(tests.pid, signal.SIGKILL)
    if drop:
        end_all_of_nobody()
    return outcomes(work / "report.jsonl")


def end_all_of_nobody() -> None:
    """What outlives the tests must not meddle."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == NOBODY:
                os.kill(int(path.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue


def outcomes(path: Path) -> dict[str, str]:
    """The last word on each test; one bad phase spoils it."""
    found: dict[str, str] = {}
    if not path.is_file() or path.is_symlink():
        return found
    for line in path.read_text(errors="replace").splitlines():
        try:
            name, outcome = json.loads(line)
        except ValueError:
            continue
        if found.get(name, "passed") == "passed" or outcome == "failed":
            found[name] = outcome
    return found


def say(text: str) -> None:
    """A line for people."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(rows: list[tuple[str, bool]]) -> None:
    """Results of single tests, in the Common Test Report Format."""
    tests = [
        {"name": name, "status": "passed" if good else "failed", "duration": 0}
        for name, good in rows
    ]
    passed = sum(good for _, good in rows)
    summary = {"tests": len(rows), "passed": passed, "failed": len(rows) - passed}
    summary.update({"pending": 0, "skipped": 0, "other": 0, "start": 0, "stop": 0})
    results = {"tool": {"name": "pytest"}, "summary": summary, "tests": tests}
    (LOGS / "ctrf.json").write_text(json.dumps({"results": results}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
