"""Results test by test: from a CTRF report, or from what a test program printed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from rackbench_tasks.problem import TaskError, one_line


class TestStatus(StrEnum):
    """How a test ended."""

    __test__ = False  # not a class of tests, whatever its name

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """It could not be run."""
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    """It failed, as was expected."""
    XPASSED = "xpassed"
    """It passed, where a failure was expected."""
    OTHER = "other"
    """Whatever else a report calls it."""


class TestResultsError(TaskError):
    """There are no results to read; unknown, which is never failed."""

    __test__ = False


_HARMLESS = frozenset({TestStatus.PASSED, TestStatus.SKIPPED, TestStatus.XFAILED})
_CTRF_STATUS = {
    "passed": TestStatus.PASSED,
    "failed": TestStatus.FAILED,
    "skipped": TestStatus.SKIPPED,
    "pending": TestStatus.SKIPPED,
}
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE | re.IGNORECASE)
_SUMMARY_END = re.compile(r"^=+(?: .* )?=+$", re.MULTILINE)
_OUTCOME = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (.+)")
_OUTCOME_STATUS = {
    "PASSED": TestStatus.PASSED,
    "FAILED": TestStatus.FAILED,
    "ERROR": TestStatus.ERROR,
    "SKIPPED": TestStatus.SKIPPED,
    "XFAIL": TestStatus.XFAILED,
    "XPASS": TestStatus.XPASSED,
}
_COUNT_STATUS = {
    "passed": TestStatus.PASSED,
    "failed": TestStatus.FAILED,
    "error": TestStatus.ERROR,
    "errors": TestStatus.ERROR,
    "skipped": TestStatus.SKIPPED,
    "xfailed": TestStatus.XFAILED,
    "xpassed": TestStatus.XPASSED,
}
_LAST_LINE = re.compile(
    r"^=* ?(?P<counts>\d+ [a-z]+(?:, \d+ [a-z]+)*) in \d+(?:\.\d+)?s(?: \([\d:, days]+\))? ?=*$",
    re.MULTILINE,
)
_COUNT = re.compile(r"(\d+) ([a-z]+)")
_UNITTEST_RAN = re.compile(
    r"^Ran (\d+) tests? in [\d.]+s\s+(OK|FAILED)(?: \((.*)\))?$", re.MULTILINE
)
_UNITTEST_COUNT = re.compile(r"([a-z ]+)=(\d+)")
_UNITTEST_STATUS = {
    "failures": TestStatus.FAILED,
    "errors": TestStatus.ERROR,
    "skipped": TestStatus.SKIPPED,
    "expected failures": TestStatus.XFAILED,
    "unexpected successes": TestStatus.XPASSED,
}
_MOST_COUNTED = 100_000
_MOST_DIGITS = 9


def reward_of(results: Mapping[str, TestStatus]) -> float:
    """1 where every test passed, was skipped or failed as expected, and one passed; else 0.

    Raises TestResultsError where there is no test.
    """
    if not results:
        raise TestResultsError("there is no test among the results; that none failed means nothing")
    statuses = set(results.values())
    return 1.0 if statuses <= _HARMLESS and TestStatus.PASSED in statuses else 0.0


def read_ctrf(content: bytes) -> dict[str, TestStatus]:
    """Results of a CTRF report, by name.

    Raises TestResultsError.
    """
    try:
        report = json.loads(content.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise TestResultsError(f"the CTRF report is not JSON: {error}") from error
    results = report.get("results") if isinstance(report, dict) else None
    tests = results.get("tests") if isinstance(results, dict) else None
    if not isinstance(tests, list):
        raise TestResultsError("the CTRF report has no list results.tests")
    return _by_name(_ctrf_tests(tests))


def _ctrf_tests(tests: list[object]) -> Iterator[tuple[str, TestStatus]]:
    for number, test in enumerate(tests):
        if not isinstance(test, dict) or not isinstance(test.get("name"), str):
            raise TestResultsError(f"results.tests.{number} of the CTRF report has no name")
        status = test.get("status")
        known = _CTRF_STATUS.get(status.lower()) if isinstance(status, str) else None
        yield test["name"], known or TestStatus.OTHER


def parse_output(parser: str, text: str) -> dict[str, TestStatus]:
    """Results that a test program printed, by name; `parser` is one of `OUTPUT_PARSERS`.

    Raises TestResultsError where the text holds none.
    """
    if parser not in OUTPUT_PARSERS:
        known = ", ".join(OUTPUT_PARSERS)
        raise TestResultsError(f"there is no parser {parser!r}; known are {known}")
    results = _PARSERS[parser](_plain(text))
    if not results:
        raise TestResultsError(f"the output holds no result that the parser {parser!r} can read")
    return results


def _plain(text: str) -> str:
    """Text as it was meant to be read: without colours, and with one kind of line end."""
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _pytest(text: str) -> dict[str, TestStatus]:
    # All summaries count: a script may run pytest twice, and one that a test prints hides nothing.
    blocks = (_SUMMARY_END.split(rest, 1)[0] for rest in _SUMMARY.split(text)[1:])
    listed = _by_name(line for block in blocks for line in _summary_lines(block))
    if set(listed.values()) - {TestStatus.SKIPPED, TestStatus.XFAILED}:
        return listed
    # Without -rA the summary leaves out what passed.
    return {**_counted(text), **listed}


def _summary_lines(block: str) -> Iterator[tuple[str, TestStatus]]:
    for line in block.splitlines():
        if match := _OUTCOME.fullmatch(line):
            outcome, rest = match.groups()
            # A skip says `[2] tests/test_a.py:3: reason`: where, and how many, but not which.
            is_bare = outcome in ("PASSED", "SKIPPED")
            yield rest if is_bare else _test_name(rest), _OUTCOME_STATUS[outcome]


def _test_name(rest: str) -> str:
    """A test's id without what pytest says about it; a parameter may hold ` - ` itself."""
    start = rest.find("::")
    depth = 0
    for at, character in enumerate(rest):
        if at > start >= 0:
            depth += (character == "[") - (character == "]" and depth > 0)
        if depth == 0 and rest.startswith(" - ", at):
            return rest[:at]
    return rest.split(" - ", 1)[0] if depth else rest


def _counted(text: str) -> dict[str, TestStatus]:
    """Tests that are known by their number alone, of pytest's or unittest's last lines."""
    counts: Counter[TestStatus] = Counter()
    for match in _LAST_LINE.finditer(text):
        for number, word in _COUNT.findall(match["counts"]):
            if word in _COUNT_STATUS:
                counts[_COUNT_STATUS[word]] += int(number[:_MOST_DIGITS])
    for match in _UNITTEST_RAN.finditer(text):
        counts.update(_unittest_counts(match))
    if counts.total() > _MOST_COUNTED:
        raise TestResultsError(f"the output speaks of more than {_MOST_COUNTED} tests")
    return {
        f"{status} {number}": status
        for status, count in counts.items()
        for number in range(1, count + 1)
    }


def _unittest_counts(match: re.Match[str]) -> dict[TestStatus, int]:
    ran, verdict, details = int(match[1][:_MOST_DIGITS]), match[2], match[3] or ""
    counts = {
        _UNITTEST_STATUS[name.strip()]: int(number[:_MOST_DIGITS])
        for name, number in _UNITTEST_COUNT.findall(details)
        if name.strip() in _UNITTEST_STATUS
    }
    if verdict == "FAILED" and not set(counts) - _HARMLESS:
        counts[TestStatus.FAILED] = 1
    counts[TestStatus.PASSED] = max(0, ran - sum(counts.values()))
    return counts


def _marked(name: str, passed: str) -> Callable[[str], dict[str, TestStatus]]:
    """A parser of one verdict between two marker lines."""
    start, end = f"{name} results starts here", f"{name} results ends here"

    def parse(text: str) -> dict[str, TestStatus]:
        before, _, rest = text.rpartition(start)
        verdict, found, _ = rest.partition(end)
        if not (before or text.startswith(start)) or not found:
            raise TestResultsError(f"the output has no verdict between {start!r} and {end!r}")
        if not verdict.strip():
            raise TestResultsError(f"there is nothing between {start!r} and {end!r}")
        is_passed = verdict.strip().upper() == passed
        return {"tests": TestStatus.PASSED if is_passed else TestStatus.FAILED}

    return parse


def _swelancer(text: str) -> dict[str, TestStatus]:
    verdicts = re.findall(r"SWE LANCER (SUCCESS|FAILURE)", text, re.IGNORECASE)
    if not verdicts:
        raise TestResultsError("the output says neither SWE LANCER SUCCESS nor SWE LANCER FAILURE")
    is_passed = verdicts[-1].upper() == "SUCCESS"
    return {"tests": TestStatus.PASSED if is_passed else TestStatus.FAILED}


def _by_name(tests: Iterable[tuple[str, TestStatus]]) -> dict[str, TestStatus]:
    """Results by name; of several of one name, the worst."""
    results: dict[str, TestStatus] = {}
    for raw_name, status in tests:
        name = one_line(raw_name)
        if results.get(name) in (None, *_HARMLESS):
            results[name] = status
    return results


_PARSERS: Mapping[str, Callable[[str], dict[str, TestStatus]]] = {
    "pytest": _pytest,
    "swebench": _marked("SWEBench", "PASSED"),
    "sweperf": _marked("SWE-Perf", "PASSED"),
    "swelancer": _swelancer,
    "mlebench": _marked("MLEBench", "ALL TESTS PASSED"),
}
OUTPUT_PARSERS = tuple(_PARSERS)
"""Names that `parse_output` knows, as tasks of Terminal-Bench 1 write them."""
