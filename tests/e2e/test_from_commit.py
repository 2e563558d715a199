"""A fix of a repository becomes a task that is proved, or is refused and leaves nothing."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from history import History
from program import Program

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

CODE = """\
def share(total, people):
    return total // people
"""
FIXED = """\
from pathlib import Path

MARK = Path(__file__).with_name("mark.bin")


def share(total, people):
    if people < 1:
        raise ValueError("nobody to share with")
    return total // people


def mark():
    return MARK.read_bytes()
"""
MARK = bytes(range(256)) * 3
OLD_TESTS = """\
from shares import share


def test_even():
    assert share(10, 5) == 2
"""
NEW_TESTS = (
    OLD_TESTS
    + """

def test_nobody():
    import pytest

    with pytest.raises(ValueError, match="nobody"):
        share(1, 0)


def test_mark():
    from shares import mark

    assert len(mark()) == 768
"""
)
FIX = "Fix sharing among nobody (#7)\n\nIt ended with a ZeroDivisionError.\n\nAdd tests for it.\n"
ROOT_CONFTEST = "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n"


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(tmp_path / "shares")
    made.commit(
        "First version",
        {
            "shares/__init__.py": CODE,
            "shares/old.py": "GONE = True\n",
            "tests/test_shares.py": OLD_TESTS,
            "conftest.py": ROOT_CONFTEST,
            "run.sh": "#!/bin/sh\nexec python3 -m pytest\n",
        },
        executable="run.sh",
    )
    return made


@pytest.fixture
def fix(history: History) -> str:
    """The tests' file is renamed, a file removed, and a binary one added."""
    commit = history.commit(
        FIX,
        {
            "shares/__init__.py": FIXED,
            "shares/mark.bin": MARK,
            "shares/old.py": None,
            "tests/test_shares.py": None,
            "tests/test_sharing.py": NEW_TESTS,
        },
    )
    history.commit("Later", {"README.md": "Shares.\n"})
    history.git("tag", "v1.0")
    return commit


def make(program: Program, history: History, *arguments: object, check: int = 0) -> Any:
    return program.call(
        "task", "from-commit", history.folder, *arguments, "--to", "made", check=check
    )


def test_a_fix_becomes_a_task(program: Program, history: History, fix: str) -> None:
    done = json.loads(make(program, history, fix, "--name", "sharing", "--json").stdout)
    task = program.folder / "made" / "sharing"
    assert done["fail_to_pass"] == [
        "tests/test_sharing.py::test_mark",
        "tests/test_sharing.py::test_nobody",
    ]
    assert done["pass_to_pass"] == ["tests/test_sharing.py::test_even"]
    assert [path.name for path in task.parent.iterdir()] == ["sharing"]

    told = (task / "instruction.md").read_text()
    assert told.startswith("# Fix sharing among nobody\n\nIt ended with a ZeroDivisionError.\n")
    for hidden in ("test_", "Add tests", "#7", "raise ValueError", fix[:8]):
        assert hidden not in told
    assert fix in (task / "NOTES.md").read_text()

    checks = [
        word for name in ("reference", "idle", "answer", "forgery") for word in ("--only", name)
    ]
    report = json.loads(
        program.call("task", "check", task, "--times", "1", *checks, "--json").stdout
    )
    assert report["tasks"][0]["proved"]


CHEAT = """#!/bin/sh
cd /app
echo 'import os; os._exit(0)' | tee pytest.py json.py sitecustomize.py shares/usercustomize.py >conftest.py
printf '[pytest]\\naddopts = --collect-only\\n' >pytest.ini
cat >tests/conftest.py <<'END'
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    result = yield
    result.get_result().outcome = "passed"
END
mv tests elsewhere
ln -s elsewhere tests
"""


def test_what_an_agent_plants_does_not_steer_the_tests(
    program: Program, history: History, fix: str
) -> None:
    make(program, history, fix, "--name", "sharing")
    (program.folder / "made/sharing/solution/solve.sh").write_text(CHEAT)
    run = {"name": "test", "tasks": "made", "arms": ["oracle"]}
    (program.folder / "run.yaml").write_text(yaml.safe_dump(run))
    program.call("run", "run.yaml")
    (cheated,) = program.results()
    assert (cheated["outcome"], cheated["reason"]) == ("unsolved", "wrong")
    said = (cheated["path"].parent / "verifier" / "test-stdout.txt").read_text()
    assert "PASSED every test that passed before still passes" in said
    assert "FAILED tests/test_sharing.py::test_nobody" in said
    for planted in (
        "pytest.py",
        "json.py",
        "sitecustomize.py",
        "elsewhere/conftest.py",
        "pytest.ini",
    ):
        assert f"removed /app/{planted}" in said


def test_the_history_is_cut(program: Program, history: History, fix: str) -> None:
    history.git("stash", "store", "-m", "kept", fix)
    history.git("gc", "-q")
    make(program, history, fix, "--name", "sharing")
    tree = program.folder / "tree"
    with tarfile.open(program.folder / "made/sharing/environment/repository.tar.gz") as archive:
        archive.extractall(tree, filter="data")

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments], cwd=tree, capture_output=True, text=True, check=False
        )

    assert len(git("rev-list", "--all", "--reflog").stdout.split()) == 1
    assert git("for-each-ref", "--format=%(refname)").stdout.split() == ["refs/heads/main"]
    assert git("status", "--porcelain").stdout == ""
    assert git("fsck", "--full", "--lost-found").stdout == ""
    blob = history.git("rev-parse", f"{fix}:shares/__init__.py")
    for lost in (fix, blob, *history.commits):
        assert git("cat-file", "-e", lost).returncode != 0
    assert (tree / "shares/__init__.py").read_text() == CODE
    assert (tree / "run.sh").stat().st_mode & 0o111


def test_a_bare_clone_gives_the_same_task(program: Program, history: History, fix: str) -> None:
    bare = program.folder / "shares.git"
    history.git("clone", "-q", "--bare", ".", str(bare))
    make(program, history, fix, "--name", "one")
    program.call("task", "from-commit", bare, fix[:9], "--to", "made", "--name", "two")
    one, two = (program.folder / "made" / name for name in ("one", "two"))
    same = (
        "environment/repository.tar.gz",
        "solution/fix.patch",
        "tests/files/tests/test_sharing.py",
    )
    for name in same:
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_text_of_an_issue_is_the_instruction(program: Program, history: History, fix: str) -> None:
    issue = program.folder / "issue.md"
    issue.write_text("# Crash\n\nSharing among nobody should be a ValueError.\n")
    make(program, history, fix, "--issue", issue)
    (task,) = (program.folder / "made").iterdir()
    assert task.name == f"shares-{fix[:8]}"
    assert (task / "instruction.md").read_text().startswith(issue.read_text())


REFUSED = {
    "root": ("has no parent", {}),
    "tests only": ("changes nothing but tests", {"tests/test_more.py": OLD_TESTS}),
    "no test": ("changes no test", {"shares/__init__.py": FIXED}),
    "data of tests": ("no test itself", {"shares/__init__.py": FIXED, "tests/data.txt": "1"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_commits_that_are_no_fix(program: Program, history: History, name: str) -> None:
    words, files = REFUSED[name]
    commit = history.commit("Change", files) if files else history.commits[0]
    done = make(program, history, commit, check=2)
    assert words in done.stderr
    assert not (program.folder / "made").exists()


def test_a_merge_needs_its_mainline(program: Program, history: History) -> None:
    history.git("checkout", "-q", "-b", "side")
    history.commit("Fix it", {"shares/__init__.py": FIXED, "shares/mark.bin": MARK})
    history.commit("Test it", {"tests/test_shares.py": NEW_TESTS})
    history.git("checkout", "-q", "main")
    history.commit("Meanwhile", {"README.md": "Shares.\n"})
    history.git("merge", "-q", "--no-ff", "-m", "Fix sharing among nobody", "side")
    assert "is a merge" in make(program, history, "main", check=2).stderr
    done = json.loads(make(program, history, "main", "--mainline", "1", "--json").stdout)
    assert len(done["fail_to_pass"]) == 2
    found = program.call(
        "task", "from-commit", history.folder, "--scan", "--merges", "--json"
    ).stdout
    assert [row["subject"] for row in json.loads(found)["candidates"]] == [
        "Fix sharing among nobody"
    ]


def test_what_does_not_fail_before_is_refused(program: Program, history: History) -> None:
    easy = OLD_TESTS + "\n\ndef test_odd():\n    assert share(11, 5) == 2\n"
    commit = history.commit("Say more", {"shares/__init__.py": FIXED, "tests/test_shares.py": easy})
    done = make(program, history, commit, check=1)
    assert "no test fails before the fix: all 2 pass without it" in done.stderr
    assert not (program.folder / "made").exists()


def test_what_fails_after_is_refused_or_left_out(program: Program, history: History) -> None:
    wrong = NEW_TESTS + "\n\ndef test_never():\n    assert share(1, 1) == 2\n"
    commit = history.commit(
        "Fix half of it",
        {"shares/__init__.py": FIXED, "shares/mark.bin": MARK, "tests/test_shares.py": wrong},
    )
    (program.folder / "made").mkdir()
    done = make(program, history, commit, check=1)
    assert "tests/test_shares.py::test_never" in done.stderr
    assert list((program.folder / "made").iterdir()) == []
    done = json.loads(make(program, history, commit, "--leave-out-failing", "--json").stdout)
    assert len(done["fail_to_pass"]) == 2
    assert "test_never" in done["notes"][-1]


def test_nothing_is_overwritten(program: Program, history: History, fix: str) -> None:
    taken = program.folder / "made" / "sharing"
    taken.mkdir(parents=True)
    assert "is there already" in make(program, history, fix, "--name", "sharing", check=2).stderr
    assert list(taken.iterdir()) == []
    done = make(program, history, fix, "--name", "../sharing", check=2)
    assert "is no name for a task" in done.stderr


def test_other_languages_by_a_command(program: Program, tmp_path: Path) -> None:
    history = History(tmp_path / "greeting")
    test = '#!/bin/sh\ntest "$(sh hello.sh)" = '
    history.commit("First", {"hello.sh": "echo Hallo\n", "tests/hello.sh": f"{test}Hallo\n"})
    commit = history.commit(
        "Greet the world",
        {"hello.sh": "echo Hallo Welt\n", "tests/hello.sh": f"{test}'Hallo Welt'\n"},
    )
    done = make(program, history, commit, "--tests", "tests/hello.sh", check=2)
    assert "--test-command" in done.stderr
    make(
        program, history, commit, "--name", "hello",
        "--tests", "tests/hello.sh", "--test-command", "sh {tests}",
    )  # fmt: skip
    run = {"tasks": "made", "arms": ["oracle", "nop"]}
    (program.folder / "run.yaml").write_text(yaml.safe_dump({"name": "test", **run}))
    program.call("run", "run.yaml")
    assert {name: r["outcome"] for name, r in program.final().items()} == {
        "hello/oracle": "solved",
        "hello/nop": "unsolved",
    }


def test_the_repositorys_own_dockerfile(program: Program, history: History) -> None:
    history.commit(
        "Work in a container",
        {
            "Dockerfile": "FROM rackbench/base:1\nWORKDIR /srv/shares\nCOPY run.sh /usr/bin/run-all\n",
            ".dockerignore": "*\n!run.sh\n",
        },
    )
    commit = history.commit(
        "Fix sharing",
        {"shares/__init__.py": FIXED, "shares/mark.bin": MARK, "tests/test_shares.py": NEW_TESTS},
    )
    make(program, history, commit, "--name", "own")
    task = program.folder / "made" / "own"
    assert 'workdir = "/srv/shares"' in (task / "task.toml").read_text()
    report = program.call(
        "task", "check", task, "--times", "1", "--only", "reference", "--only", "idle", "--json"
    )
    assert json.loads(report.stdout)["tasks"][0]["proved"]


def test_an_image_that_cannot_be_had(program: Program, history: History) -> None:
    devcontainer = '{\n  // Not here.\n  "image": "nowhere.invalid/python:3",\n}\n'
    history.commit("Open in an editor", {".devcontainer/devcontainer.json": devcontainer})
    commit = history.commit(
        "Fix sharing",
        {"shares/__init__.py": FIXED, "shares/mark.bin": MARK, "tests/test_shares.py": NEW_TESTS},
    )
    done = make(program, history, commit, check=2)
    assert "devcontainer.json" in done.stderr
    assert "--base IMAGE" in done.stderr
    make(program, history, commit, "--base", "rackbench/base:1")


def test_scan_lists_what_qualifies_and_counts_the_rest(program: Program, history: History) -> None:
    history.commit("Speak of it", {"README.md": "Shares.\n"})
    history.commit(
        "Pin", {"requirements.txt": "pytest==9\n", ".github/workflows/ci.yml": "on: push"}
    )
    history.commit("Only tests", {"tests/test_more.py": OLD_TESTS})
    history.commit("Only code", {"shares/more.py": "MORE = 1\n"})
    large = "\n".join(f"LINE_{number} = {number}" for number in range(400))
    history.commit("Fix a lot", {"shares/large.py": large, "tests/test_large.py": OLD_TESTS})
    tidy = history.commit(
        "Refactor", {"shares/more.py": "MORE = 2\n", "tests/test_more.py": OLD_TESTS + "\n"}
    )
    good = history.commit(
        "Fix sharing among nobody",
        {"shares/__init__.py": FIXED, "shares/mark.bin": MARK, "tests/test_shares.py": NEW_TESTS},
    )
    scan = ("task", "from-commit", history.folder, "--scan", "--last", "100")
    found = json.loads(program.call(*scan, "--json").stdout)
    assert [row["commit"] for row in found["candidates"]] == [good, tidy]
    assert found["looked_at"] == 8
    assert found["rejected"] == {
        "the first commit": 1,
        "nothing but documents, CI or dependencies": 2,
        "nothing but tests": 1,
        "no test": 1,
        "more than 300 lines of code": 1,
    }
    shown = program.call(*scan, "--limit", "1").stdout
    assert good[:10] in shown
    assert tidy[:10] not in shown

    proved = program.call(*scan, "--prove", "--to", "made", "--json")
    rows = {row["commit"]: row["proof"] for row in json.loads(proved.stdout)["candidates"]}
    assert rows[good]["task"]["fail_to_pass"]
    assert "no test fails before the fix" in rows[tidy]["problem"]
    assert [path.name for path in (program.folder / "made").iterdir()] == [f"shares-{good[:8]}"]
