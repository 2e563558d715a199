"""The tests themselves: their names, and what they do with the agent's code."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rackbench_tasks.problem import shown
from rackbench_tasks.vendor_lint.bundle import Bundle
from rackbench_tasks.vendor_lint.finding import LintFinding, error, warning

MANIFEST = "tests/test_manifest.json"
_AREA = "verifier"
_TEST_FILE = re.compile(r"tests/(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py")
_CLOCK = re.compile(r"\b(elapsed|duration|perf_counter|monotonic|wall_?time|latency|throughput)")
_RUNS = re.compile(r"\bsubprocess\b|\bos\.system\b|\bos\.popen\b|\bpexpect\b")
_SANDBOXING = {
    "agent-code-as-root": (
        re.compile(r"\buser\s*=|nobody|setuid|setresuid|runuser|setpriv|\bsu\s+-|gosu"),
        "as root",
        'give Popen user="nobody" and group="nogroup"',
    ),
    "agent-code-unlimited": (
        re.compile(r"setrlimit|prlimit|\bulimit\b"),
        "without limits of its resources",
        "set RLIMIT_CPU, RLIMIT_FSIZE and RLIMIT_NPROC in the child",
    ),
    "agent-code-environment": (
        re.compile(r"\benv\s*=(?!\s*(?:os\.environ|None))|env\s+-i\b"),
        "with the verifier's own environment",
        "give Popen a small env of its own",
    ),
    "agent-code-left-running": (
        re.compile(r"killpg|cgroup\.kill"),
        "without ending what it leaves behind",
        "start it in a session of its own, and end that with os.killpg in the end",
    ),
}


@dataclass(frozen=True, slots=True)
class Test:
    """A test as pytest collects it."""

    name: str
    """`file.py::function` or `file.py::Class::method`, as the report has it."""
    file: str
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def where(self) -> str:
        """Its line."""
        return f"{self.file}:{self.node.lineno}"


@dataclass(slots=True)
class TestCode:
    """Tests of all files, and those files that cannot be read."""

    tests: list[Test] = field(default_factory=list)
    broken: dict[str, SyntaxError] = field(default_factory=dict)


def read_tests(bundle: Bundle) -> TestCode:
    """What pytest would collect, without running it."""
    code = TestCode()
    for path in bundle.files("tests"):
        if not _TEST_FILE.fullmatch(path):
            continue
        try:
            tree = ast.parse(bundle.text(path) or "")
        except SyntaxError as problem:
            code.broken[path] = problem
            continue
        below = path.removeprefix("tests/")
        code.tests += [Test(f"{below}::{name}", path, node) for name, node in _tests(tree)]
    return code


def _tests(
    tree: ast.Module | ast.ClassDef,
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name.startswith("test"):
                yield node.name, node
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for name, test in _tests(node):
                yield f"{node.name}::{name}", test


def test_rules(bundle: Bundle) -> Iterator[LintFinding]:
    """The tests, and that the manifest lists each of them once."""
    code = read_tests(bundle)
    for path, problem in code.broken.items():
        yield error(
            f"{_AREA}/test-unreadable", f"{path}:{problem.lineno}", f"is no Python: {problem.msg}"
        )
    for test in code.tests:
        yield from _of_test(test)
    yield from _sandboxing(bundle)
    yield from _manifest(bundle, {test.name: test for test in code.tests})


def _of_test(test: Test) -> Iterator[LintFinding]:
    if ast.get_docstring(test.node) is None:
        yield warning(
            f"{_AREA}/test-undescribed",
            test.where,
            f"{test.node.name} has no docstring; say what it proves",
        )
    for node in ast.walk(test.node):
        compared = node.test if isinstance(node, ast.Assert) else node
        if not isinstance(compared, (ast.Compare, ast.BoolOp)) or compared is node:
            continue
        if match := _CLOCK.search(ast.unparse(compared)):
            yield warning(
                f"{_AREA}/wall-clock",
                f"{test.file}:{node.lineno}",  # type: ignore[attr-defined]
                f"asserts on {match[1]}: time on a busy machine says nothing of the work; "
                "assert on the result",
            )


def _sandboxing(bundle: Bundle) -> Iterator[LintFinding]:
    """Guesses from the words of all Python files: how the agent's code is run."""
    texts = {path: bundle.text(path) or "" for path in bundle.files("tests") if path[-3:] == ".py"}
    runs = next(
        (
            f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
            for path, text in texts.items()
            if (match := _RUNS.search(text))
        ),
        None,
    )
    if runs is None:
        return
    everything = "\n".join(texts.values())
    for rule, (pattern, how, mend) in _SANDBOXING.items():
        if not pattern.search(everything):
            yield warning(
                f"{_AREA}/{rule}",
                runs,
                f"starts programs, and it seems {how}; where the agent wrote them, {mend}",
            )


def _manifest(bundle: Bundle, tests: Mapping[str, Test]) -> Iterator[LintFinding]:
    text = bundle.text(MANIFEST)
    if text is None:
        return
    try:
        content = json.loads(text)
    except ValueError as problem:
        yield error(f"{_AREA}/manifest", MANIFEST, f"is no JSON: {problem}")
        return
    entries = content.get("tests") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        yield error(
            f"{_AREA}/manifest", MANIFEST, "has no list of tests; write [{id, description}, …]"
        )
        return
    seen: set[str] = set()
    for entry in entries:
        test_id = entry.get("id") if isinstance(entry, dict) else None
        description = entry.get("description") if isinstance(entry, dict) else None
        if not isinstance(test_id, str) or not isinstance(description, str) or not description:
            yield error(
                f"{_AREA}/manifest",
                MANIFEST,
                f"an entry is {shown(entry if test_id is None else test_id)}; every entry has an "
                "id and a description",
            )
            continue
        yield from _entry(f"{MANIFEST}:{_line_of(text, test_id)}", test_id, seen, tests)
        seen.add(test_id)
    listed = {test_id.partition("[")[0] for test_id in seen}
    for name, test in tests.items():
        if name not in listed:
            yield error(
                f"{_AREA}/manifest-incomplete",
                test.where,
                f"{name} is not in {MANIFEST}; add it with a description",
            )


def _entry(
    where: str, test_id: str, seen: set[str], tests: Mapping[str, Test]
) -> Iterator[LintFinding]:
    if test_id in seen:
        yield error(f"{_AREA}/manifest", where, f"{test_id} is listed twice")
    elif test_id.partition("[")[0] not in tests:
        meant = next((name for name in tests if name.endswith(f"::{test_id}")), None)
        mend = f"write {meant}" if meant else "delete it, or write the test"
        yield error(
            f"{_AREA}/manifest-unknown",
            where,
            f"{test_id} is the name of no test as the report has it; {mend}",
        )


def _line_of(text: str, test_id: str) -> int:
    return text.count("\n", 0, max(text.find(json.dumps(test_id)), 0)) + 1
