"""ci/run.sh tells the truth about projects of every kind."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

SCRIPT = "/app/ci/run.sh"
STAGES = ("shell-syntax", "python-syntax", "unit-tests")
TIMEOUT_SECONDS = float(os.environ.get("CASE_TIMEOUT_SEC", "15"))

GOOD_TEST = """\
import unittest

from area import area


class AreaTest(unittest.TestCase):
    def test_area(self):
        print("marker-of-the-unit-tests")
        self.assertEqual(area(2, 3), {wanted})
"""


def make_project(folder: Path, *, scripts=(), broken=(), wanted=6):
    """A project with shell scripts, python files that do not compile, and one unit test."""
    (folder / "src" / "deep" / "er").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "src" / "area.py").write_text("def area(a, b):\n    return a * b\n")
    (folder / "src" / "deep" / "er" / "fine.py").write_text("X = 1\n")
    for path in broken:
        (folder / "src" / path).write_text("def broken(:\n")
    (folder / "tests" / "test_area.py").write_text(GOOD_TEST.format(wanted=wanted))
    for name, text in dict(scripts).items():
        (folder / "scripts").mkdir(exist_ok=True)
        (folder / "scripts" / name).write_text(text)
    return folder


def run(*arguments, cwd):
    """Run the script in a session of its own, so that nothing of it is left behind."""
    process = subprocess.Popen(
        [SCRIPT, *map(str, arguments)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"},
    )
    try:
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("ci/run.sh did not end")
    return process.returncode, errors


def check(folder, code, *failed):
    """The report, the log and the exit code agree on which stages failed."""
    report = json.loads((folder / "build" / "report.json").read_text())
    statuses = {"result": "failed" if failed else "passed"}
    statuses["stages"] = [
        {"name": name, "status": "failed" if name in failed else "passed"} for name in STAGES
    ]
    assert report == statuses
    assert code == (1 if failed else 0)
    log = (folder / "build" / "ci.log").read_text(errors="replace")
    assert "Ran " in log, "the log lacks the output of the unit tests"
    return log


@pytest.fixture
def elsewhere(tmp_path):
    """A working directory of the caller that has to stay empty."""
    folder = tmp_path / "else where"
    folder.mkdir()
    yield folder
    assert not list(folder.iterdir()), "something was written in the caller's directory"


FINE = "#!/bin/bash\necho fine\n"
BROKEN = "#!/bin/bash\nif true; then\n"


def test_a_good_project(tmp_path, elsewhere):
    project = make_project(tmp_path / "good", scripts={"a.sh": FINE, "b c.sh": FINE})
    code, _ = run(project, cwd=elsewhere)
    log = check(project, code)
    assert "marker-of-the-unit-tests" in log


def test_a_failing_unit_test(tmp_path, elsewhere):
    project = make_project(tmp_path / "unit", scripts={"a.sh": FINE}, wanted=7)
    code, _ = run(project, cwd=elsewhere)
    assert "6 != 7" in check(project, code, "unit-tests")


def test_a_broken_script_whose_name_has_a_space(tmp_path, elsewhere):
    project = make_project(
        tmp_path / "shell", scripts={"a.sh": FINE, "my first.sh": BROKEN, "z.sh": FINE}
    )
    code, _ = run(project, cwd=elsewhere)
    assert "my first.sh" in check(project, code, "shell-syntax")


def test_the_first_script_of_many_is_broken(tmp_path, elsewhere):
    project = make_project(tmp_path / "first", scripts={"a.sh": BROKEN, "b.sh": FINE})
    code, _ = run(project, cwd=elsewhere)
    check(project, code, "shell-syntax")


def test_scripts_elsewhere_are_not_looked_at(tmp_path, elsewhere):
    project = make_project(tmp_path / "other", scripts={"notes.txt": BROKEN})
    (project / "scripts" / "old").mkdir()
    (project / "scripts" / "old" / "a.sh").write_text(BROKEN)
    (project / "tests" / "a.sh").write_text(BROKEN)
    code, _ = run(project, cwd=elsewhere)
    check(project, code)


@pytest.mark.parametrize("path", ["bad.py", "deep/er/bad.py", "deep/with space.py"])
def test_python_that_does_not_compile(tmp_path, elsewhere, path):
    project = make_project(tmp_path / "python", broken=[path])
    code, _ = run(project, cwd=elsewhere)
    assert Path(path).name in check(project, code, "python-syntax")


def test_all_stages_run_although_all_fail(tmp_path, elsewhere):
    project = make_project(
        tmp_path / "all three", scripts={"a.sh": BROKEN}, broken=["bad.py"], wanted=7
    )
    code, _ = run(project, cwd=elsewhere)
    check(project, code, *STAGES)


def test_a_relative_path_with_a_space(tmp_path):
    project = make_project(tmp_path / "out side" / "in side", scripts={"a b.sh": FINE})
    code, _ = run("in side", cwd=project.parent)
    check(project, code)
    assert [path.name for path in project.parent.iterdir()] == ["in side"]


def test_without_an_argument(tmp_path):
    project = make_project(tmp_path / "here", wanted=7)
    code, _ = run(cwd=project)
    check(project, code, "unit-tests")


def test_a_second_run_replaces_the_first(tmp_path, elsewhere):
    project = make_project(tmp_path / "twice", scripts={"a.sh": BROKEN}, wanted=7)
    run(project, cwd=elsewhere)
    (project / "scripts" / "a.sh").write_text(FINE)
    # Of another length, or Python's cache of the first one would still be valid within this second.
    (project / "tests" / "test_area.py").write_text(GOOD_TEST.format(wanted="2 * 3"))
    code, _ = run(project, cwd=elsewhere)
    log = check(project, code)
    assert "6 != 7" not in log
    assert log.count("Ran ") == 1


@pytest.mark.parametrize("kind", ["missing", "a file"])
def test_no_folder(tmp_path, elsewhere, kind):
    target = tmp_path / "no project"
    if kind == "a file":
        target.write_text("text")
    code, errors = run(target, cwd=elsewhere)
    assert code == 2
    assert errors.strip()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["else where"] + (["no project"] if kind == "a file" else [])
    )


def test_the_parser_project(elsewhere):
    parser = Path("/app/projects/parser")
    code, _ = run(parser, cwd=elsewhere)
    log = check(parser, code, "unit-tests")
    assert "test_a_trailing_semicolon_adds_nothing" in log
