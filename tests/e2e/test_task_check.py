"""Every planted fault is found by the check that is meant for it, and good tasks pass them all."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
import yaml
from program import RACKBENCH

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200)]

DATA = Path(__file__).parents[1] / "data"
BAD, GOOD = DATA / "bad_tasks", DATA / "good_tasks"

RUNS = {
    "reference-fails": ("reference", "the reference did not solve it"),
    "no-reference": ("reference", "there is no reference solution"),
    "tests-in-order": ("stable", "pytest's tests from last to first"),
    "local-time": ("stable", "TZ=LINT-14"),
    "hash-order": ("stable", "PYTHONHASHSEED=1"),
    "file-is-enough": ("idle", "solved, reward 1"),
    "half-for-nothing": ("idle", "reward 0.5"),
    "one-test-passes-idle": ("idle", "test_nothing_off"),
    "verifier-needs-network": ("sealed", "tools.example.com, curl"),
    "mutant-passes": ("mutants", "the mutant always-up passes"),
}
IMAGES = {
    "answer-in-image": ("answer", "/opt/build/price_new.py: the same as /app/price.py"),
    "answer-with-other-name": ("answer", "/usr/share/notes.txt: holds"),
    "tests-in-image": ("answer", "/opt/checks/test_outputs.py"),
    "tests-folder-in-image": ("answer", "/tests/cases.txt"),
    "solution-in-image": ("answer", "/usr/local/share/set-up: the same as solution/solve.sh"),
    "expected-readable": ("answer", "/srv/data/cases.json: the same as tests/expected.json"),
    "fix-in-stash": ("answer", "by a ref beside HEAD"),
    "fix-in-future-commit": ("answer", "Round half up"),
    "fix-in-reflog": ("answer", "by a reflog"),
    "fix-unreachable": ("answer", "by no ref"),
    "fix-in-alternates": ("answer", "by no ref"),
    "built-by-chance": ("rebuild", "/app/seed.txt: another content"),
    "verifier-built-by-chance": ("rebuild", "the verifier's image is another: 1 files differ"),
    "image-too-large": ("size", "the limit is 100"),
}
FORGED = {
    "reward-by-the-agent": ("forgery", "reward-written-before"),
    "tests-run-in-workdir": ("forgery", "planted-in-workdir"),
    "separate-runs-artifacts": ("forgery", "planted-in-workdir"),
    "verdict-in-workdir": ("forgery", "results-rewritten"),
}

Reports = dict[str, dict[str, Any]]


def check(folder: Path, *arguments: object, code: int) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [RACKBENCH, "task", "check", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def report_of(folder: Path, tasks: Sequence[str], *arguments: str) -> Reports:
    suite = folder / "suite.yaml"
    suite.write_text(yaml.safe_dump({"tasks": [str(BAD / name) for name in tasks]}))
    only = [word for name in arguments for word in ("--only", name)]
    done = check(folder, suite, "--json", *only, code=1)
    return {row["task"]: row for row in json.loads(done.stdout)["tasks"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, base_image: str) -> Reports:
    folder = tmp_path_factory.mktemp("runs")
    checks = ("reference", "stable", "idle", "sealed", "mutants")
    return report_of(folder, [*RUNS, "by-chance"], *checks)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, base_image: str) -> Reports:
    folder = tmp_path_factory.mktemp("images")
    return report_of(folder, list(IMAGES), "reference", "answer", "size", "rebuild")


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory, base_image: str) -> Reports:
    return report_of(tmp_path_factory.mktemp("forged"), list(FORGED), "idle", "forgery")


def assert_found(report: dict[str, Any], name: str, words: str) -> None:
    """The task fails by this check alone, and the report shows the fault itself."""
    errors = [finding for finding in report["findings"] if finding["level"] == "error"]
    assert {finding["check"] for finding in errors} == {name}, errors
    assert not report["proved"]
    assert report["checks"][name] == "error"
    told = "\n".join([*(f["text"] for f in errors), *(x for f in errors for x in f["evidence"])])
    assert words in told


def test_every_bad_task_has_a_test_here() -> None:
    folders = {path.name for path in BAD.iterdir() if (path / "task.toml").exists()}
    assert folders == {*RUNS, *IMAGES, *FORGED, "by-chance"}


@pytest.mark.parametrize("name", RUNS)
def test_a_fault_that_runs_show(name: str, runs: Reports) -> None:
    assert_found(runs[name], *RUNS[name])


@pytest.mark.parametrize("name", IMAGES)
def test_a_fault_that_images_show(name: str, images: Reports) -> None:
    assert_found(images[name], *IMAGES[name])


@pytest.mark.parametrize("name", FORGED)
def test_a_fault_that_forgers_show(name: str, forged: Reports) -> None:
    assert_found(forged[name], *FORGED[name])


def test_a_verdict_by_chance_is_found_by_whichever_run_it_fails(runs: Reports) -> None:
    report = runs["by-chance"]
    assert not report["proved"]
    errors = {f["check"] for f in report["findings"] if f["level"] == "error"}
    assert errors <= {"reference", "stable"}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, base_image: str) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("good")
    done = check(folder, GOOD, "--json", code=0)
    return folder, json.loads(done.stdout)


def test_good_tasks_pass_every_check(good: tuple[Path, dict[str, Any]]) -> None:
    _, report = good
    assert report["proved"]
    assert {task["task"] for task in report["tasks"]} == {
        "allowed",
        "git-history",
        "separate-verifier",
        "shared-verifier",
        "two-steps",
    }
    for task in report["tasks"]:
        assert [f for f in task["findings"] if f["level"] == "error"] == []
        assert set(task["checks"]) == {
            "reference", "stable", "idle", "sealed", "answer",
            "forgery", "mutants", "size", "rebuild",
        }  # fmt: skip


def test_only_a_verifier_of_its_own_is_proof_against_replaced_programs(
    good: tuple[Path, dict[str, Any]],
) -> None:
    _, report = good
    states = {task["task"]: task["checks"]["forgery"] for task in report["tasks"]}
    assert states["separate-verifier"] == "ok"
    assert states["shared-verifier"] == "warning"
    (shared,) = (task for task in report["tasks"] if task["task"] == "shared-verifier")
    (warning,) = (f for f in shared["findings"] if f["level"] == "warning")
    assert "replaced-programs" in warning["text"]
    assert "separate verifier" in warning["text"]


def test_the_report_and_every_attempt_are_kept(good: tuple[Path, dict[str, Any]]) -> None:
    folder, report = good
    run = Path(report["run"])
    assert run.is_relative_to(folder / "runs")
    assert json.loads((run / "check.json").read_text()) == report
    (shared,) = (task for task in report["tasks"] if task["task"] == "shared-verifier")
    for arm in shared["attempts"]:
        assert (run / "trials" / "shared-verifier" / arm / "0" / "attempt-01/result.json").exists()
    assert "mutant-always-down" in shared["attempts"]


def test_nothing_is_left(
    good: tuple[Path, dict[str, Any]],
    docker_api: docker.APIClient,
    nothing_left: Callable[[str], None],
) -> None:
    nothing_left(Path(good[1]["run"]).name)
    for image in docker_api.images(name="rackbench/rebuilt"):
        (tag,) = image["RepoTags"]
        checking = int(tag.rpartition(":")[2].partition("-")[0])
        assert psutil.pid_exists(checking), f"{tag} was left by a check that ended"


def test_a_person_reads_what_is_wrong_and_where(tmp_path: Path, base_image: str) -> None:
    done = check(tmp_path, BAD / "file-is-enough", "--only", "idle", code=1)
    assert "FAILED file-is-enough" in done.stdout
    assert "error idle: doing nothing was not unsolved with reward 0" in done.stdout
    assert "0 of 1 tasks proved" in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    assert str(run) in done.stdout
    assert "file-is-enough/nop/0: solved" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "anwser"], "there is no check 'anwser'; did you mean 'answer'?"),
        (["--only", "idle", "--skip", "idle"], "leave no check to make"),
        (["--times", "0"], "--times"),
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = check(tmp_path, GOOD / "shared-verifier", *arguments, code=2)
    assert words in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_misspelt_allowance_is_told_before_anything_starts(tmp_path: Path) -> None:
    task = tmp_path / "task"
    for part in ("environment", "tests"):
        (task / part).mkdir(parents=True)
    (task / "task.toml").write_text('[metadata.check]\npass_idle = ["test_a"]\n')
    (task / "instruction.md").write_text("Do it.\n")
    (task / "environment" / "Dockerfile").write_text("FROM rackbench/base:1\n")
    (task / "tests" / "test.sh").write_text("exit 0\n")
    done = check(tmp_path, task, code=2)
    assert "did you mean 'passes_idle'?" in done.stderr
    assert not (tmp_path / "runs").exists()
