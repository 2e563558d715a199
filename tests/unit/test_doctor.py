"""The doctor's findings on a real machine, and on one whose daemon is not there."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import docker
import pytest

from rackbench.doctor import Finding, State, examine, mend, needed
from rackbench.errors import PrerequisiteError, UsageError
from rackbench.sandbox import owner

NAMES = {
    "python",
    "docker",
    "base-image",
    "disk",
    "containers",
    "docker-client",
    "compose",
    "engine",
    "uv",
    "memory",
    "cores",
    "gpus",
}
NOWHERE = "tcp://127.0.0.1:1"


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    found = {finding.name: finding for finding in findings}
    assert len(found) == len(findings)
    return found


@pytest.mark.docker
def test_a_machine_with_a_daemon(base_image: str) -> None:
    found = by_name(examine())
    assert set(found) == NAMES
    assert all(finding.found for finding in found.values())
    assert found["docker"].state is State.OK
    assert "API 1." in found["docker"].found
    assert "cgroup v" in found["docker"].found
    assert found["base-image"].state is State.OK
    assert base_image in found["base-image"].found
    assert "GiB free in /" in found["disk"].found
    assert found["python"].state is State.OK


def test_a_daemon_that_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    found = by_name(examine())
    assert set(found) == NAMES
    assert found["docker"].state is State.MISSING
    assert NOWHERE in found["docker"].found
    assert found["docker"].remedy == "start it there, or unset DOCKER_HOST"
    assert found["base-image"].state is State.MISSING
    assert found["disk"].state is State.WARNING
    assert {"docker", "base-image"} <= {finding.name for finding in needed(list(found.values()))}


def test_what_is_needed_is_what_is_missing_or_broken() -> None:
    findings = [Finding(state.value, state, "seen") for state in State]
    assert [finding.name for finding in needed(findings)] == ["missing", "broken"]


def test_an_engine_that_is_not_there(tmp_path: Path) -> None:
    engine = by_name(examine(engine_home=tmp_path / "none"))["engine"]
    assert engine == Finding(
        "engine",
        State.MISSING,
        f"nothing in {tmp_path / 'none'}",
        "rackbench doctor --fix engine",
    )


def test_a_half_made_engine_is_broken(tmp_path: Path) -> None:
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "vllm").touch()
    engine = by_name(examine(engine_home=tmp_path))["engine"]
    assert engine.state is State.BROKEN
    assert engine.remedy == "rackbench doctor --fix engine"


def test_an_engine_that_is_there(tmp_path: Path) -> None:
    for name in ("python", "vllm", "config.json", "template"):
        (tmp_path / name).touch()
    record = {
        "schema_version": 1,
        "python": str(tmp_path / "python"),
        "vllm": str(tmp_path / "vllm"),
        "model": str(tmp_path),
        "template": str(tmp_path / "template"),
        "version": "0.32.0+cpu",
        "recipe": "any",
    }
    (tmp_path / "installation.json").write_text(json.dumps(record))
    engine = by_name(examine(engine_home=tmp_path))["engine"]
    assert engine.state is State.OK
    assert "vllm 0.32.0+cpu" in engine.found


@pytest.mark.docker
def test_containers_of_dead_runs_are_a_warning(
    docker_api: docker.APIClient, base_image: str
) -> None:
    dead = str(owner.Owner(pid=1, started=1.0, boot_id=str(uuid.uuid4())))
    made = docker_api.create_container(base_image, "true", labels={owner.OWNER: dead})
    try:
        finding = by_name(examine())["containers"]
    finally:
        docker_api.remove_container(made["Id"], force=True)
    assert finding.state is State.WARNING
    assert finding.remedy == "rackbench clean"


def test_a_name_without_a_remedy() -> None:
    with pytest.raises(
        UsageError, match=r"no remedy for gpus; .*docker, compose, base-image, engine"
    ):
        mend(["gpus", "docker"], print)


@pytest.mark.docker
def test_mending_what_is_whole_changes_nothing(base_image: str) -> None:
    said: list[str] = []
    mend(["base-image", "docker"], said.append)
    assert said == [
        "docker: a daemon answers at unix:///var/run/docker.sock",
        f"base image: {base_image} is there",
    ]


def test_a_remedy_that_cannot_help_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    said: list[str] = []
    with pytest.raises(PrerequisiteError, match=r"docker\.sh ended with 1: .*unset DOCKER_HOST"):
        mend(["docker"], said.append)
    assert NOWHERE in said[-1]
