"""Results test by test: CTRF reports, and what pytest, unittest and graders print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_tasks import (
    OUTPUT_PARSERS,
    TestResultsError,
    TestStatus,
    parse_output,
    read_ctrf,
    reward_of,
)

PASSED, FAILED, ERROR = TestStatus.PASSED, TestStatus.FAILED, TestStatus.ERROR
SKIPPED, XFAILED, XPASSED = TestStatus.SKIPPED, TestStatus.XFAILED, TestStatus.XPASSED
TESTS = """
import pytest

def test_passes():
    print("FAILED test_all.py::test_passes - is only printed")

def test_fails():
    assert 1 == 2, "one - is not - two"

@pytest.mark.parametrize("text", ["a - b", "[x] - y", "with space"])
def test_parameter(text):
    assert "x" not in text

@pytest.fixture
def broken():
    raise OSError("no disk")

def test_error(broken):
    pass

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert False

@pytest.mark.xfail
def test_unexpected():
    pass

class TestGroup:
    def test_inner(self):
        pass
"""
UNITTESTS = """
import unittest

class Case(unittest.TestCase):
    def test_passes(self):
        pass

    def test_fails(self):
        self.assertTrue(False)

    @unittest.skip("not today")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.assertTrue(False)
"""


def output_of(folder: Path, *arguments: str) -> str:
    """What a test program really prints, colours and all."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_all.py").write_text(TESTS)
    return tmp_path


@pytest.mark.parametrize("more", [[], ["--color=yes"], ["-v"], ["-q"], ["-s"]])
def test_the_summary_of_pytest(folder: Path, more: list[str]) -> None:
    at = "test_all.py::test_"
    assert parse_output("pytest", output_of(folder, "pytest", "-rA", *more)) == {
        f"{at}passes": PASSED,
        f"{at}fails": FAILED,
        f"{at}parameter[a - b]": PASSED,
        f"{at}parameter[[x] - y]": FAILED,
        f"{at}parameter[with space]": PASSED,
        f"{at}error": ERROR,
        "[1] test_all.py:21: not today": SKIPPED,
        f"{at}expected": XFAILED,
        f"{at}unexpected": XPASSED,
        "test_all.py::TestGroup::test_inner": PASSED,
    }


def test_a_file_that_cannot_be_collected(folder: Path) -> None:
    (folder / "test_all.py").write_text("import nowhere\n")
    results = parse_output("pytest", output_of(folder, "pytest", "-rA"))
    assert (results, reward_of(results)) == ({"test_all.py": ERROR}, 0.0)


def test_pytest_twice_in_one_script(folder: Path) -> None:
    (folder / "test_all.py").write_text("def test_one():\n    assert False\n")
    (folder / "test_two.py").write_text("def test_two():\n    pass\n")
    text = "".join(
        output_of(folder, "pytest", "-rA", name) for name in ("test_all.py", "test_two.py")
    )
    assert parse_output("pytest", text) == {
        "test_all.py::test_one": FAILED,
        "test_two.py::test_two": PASSED,
    }


def test_a_summary_that_a_test_prints_hides_nothing(folder: Path) -> None:
    (folder / "test_all.py").write_text(
        "def test_one():\n"
        "    print('\\n=== short test summary info ===\\nPASSED test_all.py::test_one\\n====')\n"
        "    assert False\n"
    )
    results = parse_output("pytest", output_of(folder, "pytest", "-rA", "-s"))
    assert results == {"test_all.py::test_one": FAILED}


@pytest.mark.parametrize("more", [[], ["-q"], ["-rs"], ["--no-summary"]])
def test_without_a_list_of_what_passed_the_last_line_counts(folder: Path, more: list[str]) -> None:
    (folder / "test_all.py").write_text(
        "import pytest\ndef test_one(): pass\ndef test_two(): pass\n"
        "@pytest.mark.skip\ndef test_three(): pass\n"
    )
    results = parse_output("pytest", output_of(folder, "pytest", *more))
    assert sorted(results.values()).count(PASSED) == 2
    assert set(results.values()) == {PASSED, SKIPPED}
    assert reward_of(results) == 1.0


@pytest.mark.parametrize("more", [[], ["-v"]])
def test_the_last_lines_of_unittest(folder: Path, more: list[str]) -> None:
    (folder / "test_all.py").write_text(UNITTESTS)
    text = output_of(folder, "unittest", *more, "test_all") + "Done\n"
    assert parse_output("pytest", text) == {
        "passed 1": PASSED,
        "failed 1": FAILED,
        "skipped 1": SKIPPED,
        "xfailed 1": XFAILED,
    }
    passing = UNITTESTS.replace("self.assertTrue(False)", "pass", 1)
    (folder / "test_all.py").write_text(passing)
    assert reward_of(parse_output("pytest", output_of(folder, "unittest", "test_all"))) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash: pytest: command not found\n",
        "=== short test summary info ===\n=== no tests ran in 0.01s ===\n",
        "no tests ran in 0.01s\n",
        "Ran 0 tests in 0.000s\n\nOK\n",
        "FAILED test_a.py::test_one\n",
    ],
)
def test_where_there_is_nothing_to_read(text: str) -> None:
    with pytest.raises(TestResultsError, match="no result that the parser 'pytest' can read"):
        parse_output("pytest", text)


def test_windows_line_ends() -> None:
    text = "== short test summary info ==\r\nPASSED a.py::test_one\r\n== 1 passed in 0.1s ==\r\n"
    assert parse_output("pytest", text) == {"a.py::test_one": PASSED}


@pytest.mark.parametrize(
    ("parser", "text", "reward"),
    [
        ("swebench", "SWEBench results starts here\nPASSED\nSWEBench results ends here\n", 1.0),
        ("swebench", "x\nSWEBench results starts here\nFAILED\nSWEBench results ends here\n", 0.0),
        ("sweperf", "SWE-Perf results starts here\nPASSED\nSWE-Perf results ends here", 1.0),
        ("sweperf", "SWE-Perf results starts here\nslower\nSWE-Perf results ends here", 0.0),
        (
            "mlebench",
            "MLEBench results starts here\nALL TESTS PASSED\nMLEBench results ends here",
            1.0,
        ),
        ("mlebench", "MLEBench results starts here\nPASSED\nMLEBench results ends here", 0.0),
        ("swelancer", "Test results: [1.0]\nSWE LANCER SUCCESS\n", 1.0),
        ("swelancer", "SWE LANCER FAILURE. Expected: 3, Actual: 4\n", 0.0),
        ("swelancer", "SWE LANCER SUCCESS\nSWE LANCER FAILURE\n", 0.0),
    ],
)
def test_verdicts_of_graders(parser: str, text: str, reward: float) -> None:
    results = parse_output(parser, text)
    assert (list(results), reward_of(results)) == (["tests"], reward)


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("swebench", "PASSED\n"),
        ("swebench", "SWEBench results starts here\nPASSED\n"),
        ("swebench", "SWEBench results ends here\nSWEBench results starts here\nPASSED\n"),
        ("swebench", "SWEBench results starts here\n\nSWEBench results ends here\n"),
        ("mlebench", "ALL TESTS PASSED\n"),
        ("swelancer", "user_tool completed\n"),
        ("nose", "1 passed in 0.1s"),
    ],
)
def test_a_grader_without_a_verdict(parser: str, text: str) -> None:
    with pytest.raises(TestResultsError):
        parse_output(parser, text)


def test_the_parsers_that_tasks_name() -> None:
    assert OUTPUT_PARSERS == ("pytest", "swebench", "sweperf", "swelancer", "mlebench")


def ctrf(*tests: object) -> bytes:
    return json.dumps({"results": {"tool": {"name": "pytest"}, "tests": tests}}).encode()


def test_a_ctrf_report() -> None:
    report = ctrf(
        {"name": "a::one", "status": "passed", "duration": 3},
        {"name": "a::two", "status": "failed"},
        {"name": "a::three", "status": "skipped"},
        {"name": "a::four", "status": "pending"},
        {"name": "a::five", "status": "other"},
        {"name": "a::six"},
        {"name": "a::one", "status": "failed"},
        {"name": "a::two", "status": "passed"},
    )
    assert read_ctrf(b"\xef\xbb\xbf" + report) == {
        "a::one": FAILED,
        "a::two": FAILED,
        "a::three": SKIPPED,
        "a::four": SKIPPED,
        "a::five": TestStatus.OTHER,
        "a::six": TestStatus.OTHER,
    }
    assert read_ctrf(ctrf()) == {}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"5", b'{"results": []}', b'{"results": {"tests": {}}}'),
        *(b'{"results": {"tests": [5]}}', b'{"results": {"tests": [{"name": 5}]}}'),
        b"[" * 100_000,
    ],
)
def test_what_is_no_ctrf_report(content: bytes) -> None:
    with pytest.raises(TestResultsError, match="CTRF report"):
        read_ctrf(content)


@pytest.mark.parametrize(
    ("statuses", "reward"),
    [
        ([PASSED], 1.0),
        ([PASSED, SKIPPED, XFAILED], 1.0),
        ([PASSED, FAILED], 0.0),
        ([PASSED, ERROR], 0.0),
        ([PASSED, XPASSED], 0.0),
        ([PASSED, TestStatus.OTHER], 0.0),
        ([SKIPPED], 0.0),
    ],
)
def test_all_or_nothing(statuses: list[TestStatus], reward: float) -> None:
    assert reward_of({str(number): status for number, status in enumerate(statuses)}) == reward


def test_no_test_is_no_reward() -> None:
    with pytest.raises(TestResultsError, match="no test among the results"):
        reward_of({})


@settings(deadline=None)
@given(st.sampled_from(OUTPUT_PARSERS), st.text(max_size=200))
def test_any_text_has_results_or_none(parser: str, text: str) -> None:
    try:
        results = parse_output(parser, text)
    except TestResultsError:
        return
    assert results
    assert all(isinstance(status, TestStatus) for status in results.values())
