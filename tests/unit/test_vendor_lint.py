"""The lint `tb4-vendor`: nothing against a clean task, and each planted fault by its rule."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rackbench_tasks import TaskError
from rackbench_tasks.vendor_lint import Level, LintFinding, bundle_hash, lint

SLUG = "ledger-drift-repair"
GOLDEN = Path(__file__).parent.parent / "data" / "vendor_task"
TESTS = ["test_outputs.py::test_totals", "test_outputs.py::TestRounding::test_half_cents"]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task without a fault, alone in its folder."""
    folder = Path(shutil.copytree(GOLDEN / SLUG, tmp_path / "alone" / SLUG))
    for file in folder.rglob("*.py.txt"):  # no test of ours, so that pytest must not find it
        file.rename(file.with_suffix(""))
    return folder


@pytest.fixture
def delivered(task: Path) -> Path:
    """The same, with all that is delivered beside it."""
    top = task.parent
    shutil.copy(GOLDEN / "rubric.txt", top)
    for number in (1, 2, 3):
        judged(top / "oracle-nop-evidence" / f"oracle-{number}", passed=True)
    for number in (1, 2):
        judged(top / "oracle-nop-evidence" / f"nop-{number}", passed=False)
    runs = top / "trajectories"
    for number in range(1, 6):
        run = runs / f"run-0{number}"
        judged(run / "verifier", passed=number == 2)
        (run / "agent").mkdir()
        for name in ("api-calls.jsonl", "recording.cast", "terminus_2.pane", "trajectory.json"):
            (run / "agent" / name).write_text("{}\n")
        for name in ("config.json", "result.json", "rubric_score.txt"):
            (run / name).write_text("{}\n")
    summary = f"{SLUG} {bundle_hash(task)} some-model xhigh\n[0, 1, 0, 0, 0]\n"
    (runs / "SUMMARY.txt").write_text(summary)
    return task


def judged(folder: Path, *, passed: bool) -> None:
    folder.mkdir(parents=True)
    state = "passed" if passed else "failed"
    tests = [{"name": name, "status": state, "duration": 1} for name in TESTS]
    (folder / "ctrf.json").write_text(json.dumps({"results": {"tests": tests}}))
    (folder / "reward.txt").write_text(f"{int(passed)}\n")
    (folder / "test-stdout.txt").write_text(f"{state}\n")


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, old
    file.write_text(text.replace(old, new))


def rules(found: tuple[LintFinding, ...]) -> set[str]:
    return {finding.rule for finding in found}


def test_a_clean_task_has_no_findings(task: Path) -> None:
    assert lint(task) == ()


def test_a_clean_delivery_has_no_findings(delivered: Path) -> None:
    assert lint(delivered) == ()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="expected a task's folder"):
        lint(tmp_path / "nowhere")


TOML, AGENT, VERIFIER = "task.toml", "environment/Dockerfile", "tests/Dockerfile"
SCRIPT, PY, MANIFEST = "tests/test.sh", "tests/test_outputs.py", "tests/test_manifest.json"
COMPOSE = "environment/docker-compose.yaml"
DIGEST = "@sha256:" + "0123456789abcdef" * 4

# rule, file, what is there, what is put in its place, line of the finding (0: of the whole file)
EDITS = [
    ("task-toml/name", TOML, f'name = "{SLUG}"', 'name = "other"', 1),
    ("task-toml/name", TOML, f'name = "{SLUG}"', "# none", 0),
    ("task-toml/unreadable", TOML, "[metadata]", "[metadata", 0),
    ("task-toml/artifacts-missing", TOML, "artifacts = [", "artefacts = [", 0),
    (
        "task-toml/artifacts-under-verifier",
        TOML,
        "[verifier]\n",
        '[verifier]\nartifacts = ["/app"]\n',
        24,
    ),
    ("task-toml/artifacts-shape", TOML, '"/app/out/report.json"', '"out/report.json"', 2),
    ("task-toml/artifacts-shape", TOML, '"/app/out/report.json"', '"/tests/report.json"', 2),
    ("task-toml/artifacts-shape", TOML, "exclude =", "excludes =", 2),
    ("task-toml/author", TOML, 'author_name = "anonymous"', 'author_name = "Jo"', 5),
    ("task-toml/author", TOML, 'author_email = "anonymous"\n', "", 4),
    ("task-toml/category", TOML, '"Software"', '"Sofware"', 7),
    ("task-toml/subcategory", TOML, '"Data engineering"', '"Data Engineering"', 8),
    ("task-toml/tags", TOML, 'tags = ["ledger", "rounding", "csv"]', 'tags = ["a", "b"]', 9),
    ("task-toml/languages", TOML, '["python"]', '["python", "Cobol"]', 10),
    ("task-toml/languages", TOML, 'languages = ["python"]', "languages = []", 10),
    ("task-toml/expert-time", TOML, "= 3.0", "= 0", 11),
    ("task-toml/explanations", TOML, 'relevant_experience = "', 'relevant_history = "', 4),
    ("task-toml/multi-container", TOML, "[metadata]", "[metadata]\nis_multi_container = true", 5),
    ("task-toml/verifier-mode", TOML, '"separate"', '"shared"', 24),
    ("task-toml/verifier-timeout", TOML, "timeout_sec = 28800.0", "timeout_sec = 900", 25),
    (
        "task-toml/agent-timeout",
        TOML,
        "[agent]\ntimeout_sec = 28800.0",
        "[agent]\ntimeout_sec = 600",
        28,
    ),
    ("task-toml/resources", TOML, "memory_mb = 8192", "memory_mb = 4096", 33),
    ("task-toml/resources", TOML, "build_timeout_sec = 7200.0\n", "", 30),
    ("task-toml/network-mode", TOML, '"public"', '"allowlist"', 35),
    ("task-toml/no-network", TOML, '"public"', '"no-network"', 35),
    ("task-toml/forbidden-key", TOML, "cpus = 2", "cpus = 2\ngpus = 0", 33),
    ("task-toml/forbidden-key", TOML, "[metadata]\n", '[metadata]\ndifficulty = "hard"\n', 5),
    ("task-toml/forbidden-key", TOML, "name =", 'schema_version = "1.4"\nname =', 1),
    ("task-toml/forbidden-key", TOML, "[agent]", '[task]\nid = "x"\n\n[agent]', 27),
    ("task-toml/forbidden-key", TOML, "cpus = 2", "cpus = 2\nallow_internet = true", 33),
    ("task-toml/forbidden-key", TOML, "[agent]", "[[milestones]]\nid = 1\n\n[agent]", 27),
    ("layout/canary", TOML, "cpus = 2", 'cpus = 2\ncanary = "x"', 33),
    ("layout/canary", "solution/solve.sh", "set -", "# canary GUID 12\nset -", 2),
    (
        "layout/canary",
        "instruction.md",
        "The report",
        "26b5c67b-86ad-4853-90a8-5ae9b1f0d2c4\nThe report",
        1,
    ),
    ("agent-image/from-not-pinned", AGENT, DIGEST, "", 2),
    ("agent-image/platform", AGENT, "FROM ", "FROM --platform=linux/amd64 ", 2),
    ("agent-image/unknown-base", AGENT, "library/python", "acme/base", 2),
    ("agent-image/tmux", AGENT, " tmux", "", 0),
    ("agent-image/asciinema", AGENT, " asciinema", "", 0),
    ("agent-image/apt-pinned", AGENT, "tmux", "tmux=3.3a-3", 4),
    ("agent-image/package-unpinned", AGENT, "pandas==2.2.3", "pandas>=2", 7),
    ("agent-image/package-unpinned", "environment/requirements.txt", "==1.2.0", "", 2),
    ("agent-image/package-unpinned", AGENT, "RUN pip", "RUN npm install -g left-pad && pip", 7),
    ("agent-image/package-unpinned", AGENT, "RUN pip", "RUN go install a.b/c@latest && pip", 7),
    ("agent-image/package-unpinned", AGENT, "RUN pip", "RUN cargo install ripgrep && pip", 7),
    ("agent-image/package-unpinned", AGENT, "RUN pip", "RUN python3 -m pip install x; pip", 7),
    ("agent-image/reserved-path", AGENT, "COPY app", "COPY app /tests/app\nCOPY app", 9),
    ("agent-image/reserved-path", AGENT, "COPY app", "RUN mkdir -p /logs/verifier\nCOPY app", 9),
    ("agent-image/reserved-path", AGENT, "WORKDIR /app", "WORKDIR /oracle/app", 6),
    ("agent-image/entrypoint", AGENT, "COPY app", 'ENTRYPOINT ["nginx"]\nCOPY app', 9),
    ("verifier/from-not-pinned", VERIFIER, DIGEST, "", 1),
    ("verifier/tests-not-copied", VERIFIER, "COPY . /tests/", "COPY . /work/", 0),
    ("verifier/tests-not-copied", VERIFIER, "COPY . /tests/", "COPY test.sh *.py /tests/", 0),
    ("verifier/parent-missing", VERIFIER, "RUN mkdir -p /app/out", "RUN mkdir -p /data", 0),
    ("verifier/package-unpinned", VERIFIER, "pytest==8.4.1", "pytest", 3),
    ("verifier/set-e", SCRIPT, "set -uo pipefail", "set -euo pipefail", 2),
    ("verifier/set-e", SCRIPT, "#!/bin/bash", "#!/bin/bash -e", 1),
    ("verifier/zero-first", SCRIPT, "echo 0 > /logs/verifier/reward.txt\n\n", "\n", 11),
    ("verifier/reward-not-binary", SCRIPT, "echo 1 >", "echo 0.5 >", 21),
    ("verifier/exit-code", SCRIPT, "    exit 0", "    exit 1", 14),
    ("verifier/exit-code", SCRIPT, "\nexit 0\n", "\n", 22),
    ("verifier/test-id", SCRIPT, "TBENCH_TEST_ID", "OTHER", 0),
    ("verifier/test-id-unset", SCRIPT, "${TBENCH_TEST_ID:-}", "$TBENCH_TEST_ID", 8),
    ("verifier/test-id-unchecked", SCRIPT, "test_manifest.json", "ids.json", 0),
    ("verifier/no-ctrf", SCRIPT, "--ctrf /logs/verifier/ctrf.json", "", 0),
    ("verifier/fetches", SCRIPT, "rc=$?", "rc=$?\ncurl -LsSf https://example.org | sh", 19),
    ("verifier/tells-oracle-apart", SCRIPT, "rc=$?", "rc=$?\n[ -d /oracle ] && rc=0", 19),
    ("verifier/log-folder-mode", SCRIPT, "chmod 0755 /logs/verifier\n", "", 0),
    ("verifier/log-folder-open", SCRIPT, "chmod 0755", "chmod -R 777", 5),
    ("verifier/manifest", MANIFEST, '"id"', '"name"', 0),
    ("verifier/manifest", MANIFEST, "{\n", "\n", 0),
    ("verifier/manifest", MANIFEST, TESTS[1], TESTS[0], 3),
    ("verifier/manifest-unknown", MANIFEST, TESTS[0], "test_totals", 3),
    ("verifier/manifest-incomplete", PY, "def test_totals", "def test_sums", 34),
    ("verifier/test-undescribed", PY, '    """The totals are right."""\n', "", 34),
    ("verifier/test-unreadable", PY, "def test_totals():", "def test_totals(:", 34),
    ("verifier/wall-clock", PY, "    assert totals ==", "    assert elapsed < 5\n    assert totals ==", 37),
    ("verifier/agent-code-as-root", PY, 'user="nobody", group="nogroup", ', "", 3),
    ("verifier/agent-code-unlimited", PY, "    resource.setrlimit", "    print", 3),
    ("verifier/agent-code-environment", PY, 'env={"PATH": "/usr/bin:/bin"}', "env=os.environ", 3),
    ("verifier/agent-code-left-running", PY, "os.killpg(", "os.kill(", 3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "file", "old", "new", "line"), EDITS, ids=[f"{e[0]}-{n}" for n, e in enumerate(EDITS)]
)
def test_a_planted_fault_is_found(
    task: Path, rule: str, file: str, old: str, new: str, line: int
) -> None:
    edit(task / file, old, new)
    found = lint(task)
    assert rule in rules(found), found
    (finding, *_) = [one for one in found if one.rule == rule]
    assert finding.where == (f"{file}:{line}" if line else file)


def compose(text: str) -> Callable[[Path], None]:
    def plant(task: Path) -> None:
        (task / COMPOSE).write_text(f"services:\n  main:\n    build: .\n{text}")

    return plant


def write(path: str, content: str | bytes = "x\n") -> Callable[[Path], None]:
    def plant(task: Path) -> None:
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            (task / path).write_bytes(content)
        else:
            (task / path).write_text(content)

    return plant


def sparse(path: str, size_bytes: int) -> Callable[[Path], None]:
    def plant(task: Path) -> None:
        with (task / path).open("wb") as file:
            file.truncate(size_bytes)

    return plant


PLANTED = [
    ("agent-image/platform", compose("    platform: linux/amd64\n"), f"{COMPOSE}:4"),
    ("agent-image/privileged", compose("    privileged: true\n"), f"{COMPOSE}:4"),
    ("agent-image/capability", compose("    cap_add: [CAP_NET_ADMIN]\n"), f"{COMPOSE}:4"),
    ("agent-image/capability", compose("    cap_add:\n      - SYS_ADMIN\n"), f"{COMPOSE}:5"),
    (
        "agent-image/docker-socket",
        compose('    volumes: ["/var/run/docker.sock:/var/run/docker.sock"]\n'),
        f"{COMPOSE}:4",
    ),
    ("agent-image/bind-mount", compose("    volumes:\n      - ./x:/x\n"), f"{COMPOSE}:5"),
    (
        "agent-image/bind-mount",
        compose("    volumes:\n      - {type: bind, source: /x, target: /x}\n"),
        f"{COMPOSE}:5",
    ),
    ("agent-image/reserved-path", compose("    volumes: ['x:/tests']\n"), f"{COMPOSE}:4"),
    ("agent-image/from-not-pinned", compose("  db:\n    image: postgres:16\n"), f"{COMPOSE}:5"),
    ("agent-image/compose-unreadable", write(COMPOSE, "services: [\n"), COMPOSE),
    ("task-toml/multi-container", compose("  db:\n    build: .\n"), "task.toml:4"),
    ("agent-image/file-size", sparse("environment/big.bin", 51 * 1024**2), "environment/big.bin"),
    ("agent-image/answer-in-context", write("environment/solve.sh"), "environment/solve.sh"),
    (
        "agent-image/same-file",
        lambda task: shutil.copy(task / PY, task / "environment" / "app" / "helpers.py"),
        "environment/app/helpers.py",
    ),
    ("layout/missing-file", lambda task: (task / MANIFEST).unlink(), MANIFEST),
    ("layout/empty-file", write("instruction.md", ""), "instruction.md"),
    ("layout/unknown-entry", write("README.md"), "README.md"),
    ("layout/cruft", write("tests/__pycache__/x.pyc"), "tests/__pycache__/x.pyc"),
    ("layout/cruft", write(".DS_Store"), ".DS_Store"),
    ("layout/scaffolding", write("environment/CLAUDE.md"), "environment/CLAUDE.md"),
]


@pytest.mark.parametrize(
    ("rule", "plant", "where"), PLANTED, ids=[f"{p[0]}-{n}" for n, p in enumerate(PLANTED)]
)
def test_a_planted_file_is_found(
    task: Path, rule: str, plant: Callable[[Path], None], where: str
) -> None:
    plant(task)
    found = lint(task)
    assert (rule, where) in {(one.rule, one.where) for one in found}, found


def test_a_large_context_is_found(task: Path) -> None:
    for number in range(3):
        sparse(f"environment/{number}.bin", 40 * 1024**2)(task)
    assert rules(lint(task)) == {"agent-image/context-size"}


@pytest.mark.parametrize("name", ["Ledger_Repair", "test-1", "task"])
def test_a_name_that_says_nothing_is_found(task: Path, name: str) -> None:
    assert "layout/slug" in rules(lint(task.rename(task.parent / name)))


def test_named_volumes_and_pinned_sidecars_are_fine(task: Path) -> None:
    compose(f"    volumes: ['data:/data']\n  db:\n    image: postgres:16{DIGEST}\n")(task)
    edit(task / TOML, "[metadata]", "[metadata]\nis_multi_container = true")
    assert lint(task) == ()


def test_the_oracle_and_nop_are_judged_test_by_test(delivered: Path) -> None:
    top = delivered.parent / "oracle-nop-evidence"
    report = top / "nop-2" / "ctrf.json"
    edit(report, '"failed"', '"passed"')
    (top / "oracle-1" / "reward.txt").write_text("0\n")
    (top / "oracle-2" / "test-stdout.txt").unlink()
    edit(top / "oracle-3" / "ctrf.json", "test_totals", "test_gone")
    assert {(one.rule, one.where) for one in lint(delivered)} == {
        ("delivery/evidence-test", "../oracle-nop-evidence/nop-2/ctrf.json"),
        ("delivery/evidence-reward", "../oracle-nop-evidence/oracle-1/reward.txt"),
        ("delivery/missing-file", "../oracle-nop-evidence/oracle-2/test-stdout.txt"),
        ("delivery/other-tests", "../oracle-nop-evidence/oracle-3/ctrf.json"),
    }


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("delivery/rubric-line", "Agent finds", "The agent finds"),
        ("delivery/rubric-line", ", +5", ", 5"),
        ("delivery/rubric-line", ", +5", ", +4"),
        ("delivery/rubric-line", "Agent finds", "\nAgent finds"),
        ("delivery/rubric-sum", ", +5", ", +1"),
        ("delivery/rubric-negative", ", -3", ", +3"),
    ],
)
def test_faults_of_the_rubric_are_found(delivered: Path, rule: str, old: str, new: str) -> None:
    edit(delivered.parent / "rubric.txt", old, new)
    assert rule in rules(lint(delivered))


def test_a_task_that_changed_after_its_runs_is_found(delivered: Path) -> None:
    edit(delivered / "instruction.md", "The report", "This report")
    (finding,) = lint(delivered)
    assert (finding.rule, finding.where) == (
        "delivery/bundle-hash",
        "../trajectories/SUMMARY.txt:1",
    )
    assert bundle_hash(delivered) in finding.text


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("delivery/summary", SLUG, "another"),
        ("delivery/summary", "[0, 1, 0, 0, 0]", "solved once"),
        ("delivery/summary", "\n[", "\nnote: fine\n["),
        ("delivery/summary-rewards", "[0, 1,", "[1, 1,"),
        ("delivery/too-easy", "[0, 1, 0, 0, 0]", "[1, 1, 1, 1, 1]"),
    ],
)
def test_faults_of_the_summary_are_found(delivered: Path, rule: str, old: str, new: str) -> None:
    edit(delivered.parent / "trajectories" / "SUMMARY.txt", old, new)
    assert rule in rules(lint(delivered))


def test_what_is_missing_or_too_much_in_a_delivery_is_found(delivered: Path) -> None:
    (delivered.parent / "rubric.txt").unlink()
    (delivered.parent / "SOURCE.txt").write_text("x")
    (delivered.parent / "trajectories" / "run-05" / "agent" / "recording.cast").unlink()
    assert {(one.rule, one.where) for one in lint(delivered)} == {
        ("delivery/missing", "../rubric.txt"),
        ("delivery/unknown-entry", "../SOURCE.txt"),
        ("delivery/missing-file", "../trajectories/run-05/agent/recording.cast"),
    }


def test_errors_come_first(task: Path) -> None:
    write("environment/CLAUDE.md")(task)
    write("README.md")(task)
    assert [one.level for one in lint(task)] == [Level.ERROR, Level.WARNING]


def test_a_folder_of_rubbish_is_no_crash(tmp_path: Path) -> None:
    folder = tmp_path / "x-y"
    for name in ("task.toml", "tests/test.sh", "tests/test_outputs.py", MANIFEST, AGENT, COMPOSE):
        write(name, bytes(range(256)))(folder)
    (folder / "solution").symlink_to("/nowhere")
    assert "task-toml/unreadable" not in rules(lint(folder))
    assert "layout/missing-file" in rules(lint(folder))
    write("task.toml", 'artifacts = 5\nmetadata = 3\nverifier = []\nname = ["a"]\n')(folder)
    write(MANIFEST, "[1, {}]")(folder)
    write(COMPOSE, "services: {a: 1, b: {volumes: {x: y}, cap_add: 3}}")(folder)
    assert {"task-toml/artifacts-shape", "verifier/manifest"} <= rules(lint(folder))


def test_every_rule_has_a_test() -> None:
    source = Path(__file__).parents[2] / "tasks" / "rackbench_tasks" / "vendor_lint"
    tested = Path(__file__).read_text()
    named = re.compile(r'"(?:\{_AREA\}|\{area\}|layout|task-toml|delivery)/([a-z-]+)"')
    written = {rule for file in source.glob("*.py") for rule in named.findall(file.read_text())}
    assert len(written) > 60
    assert {rule for rule in written if f'/{rule}"' not in tested} == set()
