"""Harbor's format: what is read, key by key."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from rackbench_tasks import (
    AgentPhase,
    Artifact,
    Build,
    Compose,
    Environment,
    Healthcheck,
    Need,
    Network,
    NetworkMode,
    Solution,
    Task,
    task_digest,
)
from rackbench_tasks.formats.harbor import Harbor
from rackbench_tasks.formats.harbor_schema import RawTask

MIB = 1024 * 1024
FULL = """\
schema_version = "1.4"
artifacts = ["/app/out", {source = "/app/log", destination = "log", exclude = ["*.tmp"]}]

[metadata]
difficulty = "hard"
timeout_secs = "metadata is free"

[task]
name = "acme/fix-it"
description = "Fix it."
authors = [{name = "Ada", email = "ada@example.org"}]
keywords = ["python"]

[agent]
timeout_sec = 900
user = "dev"

[verifier]
timeout_sec = 120.5
user = 0
env = {MODE = "full"}

[environment]
docker_image = "registry.example/task@sha256:00"
build_timeout_sec = 60
cpus = 1.5
memory_mb = 512
storage_mb = 1024
network_mode = "no-network"
workdir = "/app"
env = {GREETING = "hello"}

[environment.healthcheck]
command = "curl -f localhost"
interval_sec = 1
timeout_sec = 2.5
start_period_sec = 10
start_interval_sec = 0.5
retries = 4

[solution]
env = {STEP = "all"}
"""
COMPOSE = """\
services:
  main:
    image: debian:12
  database:
    image: postgres
"""


def write_task(folder: Path, toml: str = "", files: Mapping[str, str] | None = None) -> Path:
    """A task as small as it may be, and what is added to it."""
    content = {
        "task.toml": toml,
        "instruction.md": "Fix it.\n",
        "environment/Dockerfile": "FROM base\n",
        "tests/test.sh": "echo 1 >/logs/verifier/reward.txt\n",
    }
    for name, text in (content | dict(files or {})).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


def load(folder: Path, *, strict: bool = True, **host_env: str) -> Task:
    return Harbor().load(folder, strict=strict, host_env=host_env)


def test_every_key_arrives(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "fix-it", FULL, {"solution/solve.sh": "true\n"})
    task = load(folder)
    assert (task.id, task.name, task.folder, task.format) == (
        *("acme/fix-it", "fix-it", folder, "harbor"),
    )
    (stage,) = task.stages
    assert (stage.name, stage.instruction, stage.workdir) == ("", "Fix it.\n", None)
    assert task.digest == task_digest(folder)
    assert (task.needs, task.warnings) == ((), ())
    assert task.metadata["difficulty"] == "hard"
    assert stage.artifacts == (Artifact("/app/out"), Artifact("/app/log", "log", ("*.tmp",)))
    assert stage.agent == AgentPhase(900, "dev", None)
    verifier = stage.verifier
    assert (verifier.timeout_seconds, verifier.user, verifier.env) == (120.5, "0", {"MODE": "full"})
    assert (verifier.tests, verifier.files) == ((folder / "tests",), {})
    assert (verifier.separate, verifier.environment, verifier.parser) == (False, None, None)
    assert stage.solution == Solution(folder / "solution", env={"STEP": "all"})
    environment = task.environment
    assert environment.docker_image == "registry.example/task@sha256:00"
    assert environment.build == Build(folder / "environment")
    assert environment.build_timeout_seconds == 60
    assert (environment.cpus, environment.memory_bytes) == (1.5, 512 * MIB)
    assert (environment.storage_bytes, environment.gpus) == (1024 * MIB, 0)
    assert environment.network == Network(NetworkMode.NO_NETWORK)
    assert (environment.workdir, environment.env) == ("/app", {"GREETING": "hello"})
    assert environment.healthcheck == Healthcheck("curl -f localhost", 1.0, 2.5, 10.0, 0.5, 4)


def test_an_empty_task_toml_has_the_defaults(tmp_path: Path) -> None:
    task = load(write_task(tmp_path / "small"))
    environment = task.environment
    assert (task.id, task.name) == ("small", "small")
    (stage,) = task.stages
    assert stage.agent.timeout_seconds is None
    assert (stage.verifier.timeout_seconds, environment.build_timeout_seconds) == (600, 600)
    assert (environment.cpus, environment.memory_bytes, environment.storage_bytes) == (None,) * 3
    assert environment.network == Network(NetworkMode.PUBLIC)
    assert environment.docker_image is None
    assert (stage.solution, stage.artifacts, task.needs) == (None, (), ())


def test_the_defaults_of_a_healthcheck(tmp_path: Path) -> None:
    toml = '[environment.healthcheck]\ncommand = "true"\n'
    assert load(write_task(tmp_path / "t", toml)).environment.healthcheck == Healthcheck(
        "true", 5.0, 30.0, 0.0, 5.0, 3
    )


@pytest.mark.parametrize("key", ["schema_version", "version"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
def test_versions(tmp_path: Path, key: str, version: str) -> None:
    assert load(write_task(tmp_path / "t", f'{key} = "{version}"\n')).warnings == ()


def test_the_new_version_key_goes_first(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t", 'schema_version = "1.1"\nversion = "9.9"\n')
    (warning,) = load(folder).warnings
    assert warning.endswith("'version' is ignored beside 'schema_version' \"1.1\"")


@pytest.mark.parametrize(
    ("written", "megabytes"),
    [('"2G"', 2048), ('"1g"', 1024), ('"512M"', 512), ('"1.5G"', 1536), ('"2048K"', 2)],
)
def test_old_sizes(tmp_path: Path, written: str, megabytes: int) -> None:
    toml = f"[environment]\nmemory = {written}\nstorage = {written}\n"
    environment = load(write_task(tmp_path / "t", toml)).environment
    assert environment.memory_bytes == environment.storage_bytes == megabytes * MIB


def test_old_and_new_sizes_may_agree(tmp_path: Path) -> None:
    toml = '[environment]\nmemory = "2G"\nmemory_mb = 2048\n'
    assert load(write_task(tmp_path / "t", toml)).environment.memory_bytes == 2048 * MIB


@pytest.mark.parametrize(
    ("toml", "network"),
    [
        ("allow_internet = true", Network(NetworkMode.PUBLIC)),
        ("allow_internet = false", Network(NetworkMode.NO_NETWORK)),
        ('network_mode = "public"', Network(NetworkMode.PUBLIC)),
        ('network_mode = "no-network"\nallow_internet = false', Network(NetworkMode.NO_NETWORK)),
        ('network_mode = "allowlist"', Network(NetworkMode.ALLOWLIST)),
        (
            'allowed_hosts = ["Example.org ", "*.example.net", "10.0.0.0/8", "::1"]',
            Network(NetworkMode.ALLOWLIST, ("example.org", "*.example.net", "10.0.0.0/8", "::1")),
        ),
    ],
)
def test_networks(tmp_path: Path, toml: str, network: Network) -> None:
    task = load(write_task(tmp_path / "t", f"[environment]\n{toml}\n"))
    assert task.environment.network == network
    assert (Need.ALLOWLIST in task.needs) is (network.mode is NetworkMode.ALLOWLIST)


@pytest.mark.parametrize(
    ("toml", "needs"),
    [
        ("[environment]\ngpus = 1", ["gpu"]),
        ('[environment.tpu]\ntype = "v5e"', ["tpu"]),
        ('[verifier]\nenvironment_mode = "separate"', ["separate-verifier"]),
        ("[verifier.environment]\ncpus = 2", ["separate-verifier"]),
        ('[verifier]\nenvironment_mode = "shared"', []),
        ('[[verifier.collect]]\ncommand = "dump"', ["collect-hooks"]),
        ('[[environment.mcp_servers]]\nname = "m"\nurl = "http://m"', ["mcp"]),
        ('[environment]\nskills_dir = "/skills"', ["skills"]),
        ('[agent]\nnetwork_mode = "public"', []),
        ('[agent]\nnetwork_mode = "no-network"', ["phase-network"]),
        ('[verifier]\nallowed_hosts = ["example.org"]', ["allowlist", "phase-network"]),
    ],
)
def test_what_is_not_offered_is_listed(tmp_path: Path, toml: str, needs: list[str]) -> None:
    assert list(load(write_task(tmp_path / "t", f"{toml}\n")).needs) == needs


def test_old_mcp_transport_and_raw_headers(tmp_path: Path) -> None:
    toml = (
        '[[environment.mcp_servers]]\nname = "m"\ntransport = "http"\nurl = "http://m"\n'
        'headers = {Authorization = "${TOKEN}"}\n'
    )
    (server,) = load(write_task(tmp_path / "t", toml)).environment.mcp_servers
    assert server["transport"] == "streamable-http"
    assert server["headers"] == {"Authorization": "${TOKEN}"}


def test_a_compose_file_is_enough_and_a_need(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t", files={"environment/docker-compose.yaml": COMPOSE})
    (folder / "environment" / "Dockerfile").unlink()
    task = load(folder)
    assert task.needs == ("compose",)
    file = folder / "environment" / "docker-compose.yaml"
    assert task.environment.compose == Compose(file, "main", {})
    assert (task.environment.build, task.environment.docker_image) == (None, "debian:12")


def test_an_image_is_enough(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t", '[environment]\ndocker_image = "debian:12"\n')
    shutil.rmtree(folder / "environment")
    assert load(folder).environment.build is None


def test_windows_has_scripts_of_its_own(tmp_path: Path) -> None:
    files = {"tests/test.bat": "", "solution/solve.bat": ""}
    folder = write_task(tmp_path / "t", '[environment]\nos = "windows"\n', files)
    (folder / "tests" / "test.sh").unlink()
    task = load(folder)
    assert task.needs == ("windows",)
    (stage,) = task.stages
    assert stage.verifier.command == ("bash", "/tests/test.bat")
    assert stage.solution == Solution(folder / "solution", script="solve.bat")


def test_a_separate_verifier_may_hold_its_tests(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t", '[verifier.environment]\ndocker_image = "verifier"\n')
    shutil.rmtree(folder / "tests")
    (stage,) = load(folder).stages
    assert (stage.verifier.separate, stage.verifier.tests) == (True, ())
    assert stage.verifier.environment == Environment(docker_image="verifier")


def test_a_prior_session_is_a_need(tmp_path: Path) -> None:
    assert load(write_task(tmp_path / "t", files={"trajectory.json": "{}"})).needs == (
        "trajectory",
    )


@pytest.mark.parametrize("section", ["environment", "verifier", "solution"])
def test_variables_of_the_host(tmp_path: Path, section: str) -> None:
    toml = (
        f"[{section}.env]\n"
        'A = "${KEY}"\nB = "${KEY:-other}"\nC = "${NONE:-x}y}"\nD = "${NONE:-}"\nE = "$KEY"\n'
        'F = "${EMPTY:-other}"\n'
    )
    folder = write_task(tmp_path / "t", toml, {"solution/solve.sh": ""})
    task = load(folder, KEY="secret", EMPTY="")
    (stage,) = task.stages
    assert stage.solution is not None
    env = {
        "environment": task.environment.env,
        "verifier": stage.verifier.env,
        "solution": stage.solution.env,
    }[section]
    assert env == {"A": "secret", "B": "secret", "C": "x}y", "D": "", "E": "$KEY", "F": ""}
    handed = [line for line in task.warnings if "of this machine" in line]
    assert len(handed) == 3
    assert not any("secret" in line for line in task.warnings)


def test_a_variable_within_a_text_stays_and_is_told(tmp_path: Path) -> None:
    task = load(write_task(tmp_path / "t", '[environment.env]\nURL = "http://${HOST}/"\n'))
    assert task.environment.env == {"URL": "http://${HOST}/"}
    assert "'environment.env.URL' is passed on as written" in task.warnings[0]


@pytest.mark.parametrize(
    ("text", "instruction"),
    [
        ("<!-- harbor-canary GUID 1234 -->\nDo it.\n", "Do it.\n"),
        ("<!-- BENCHMARK DATA. canary -->\n<!-- Canary 2 -->\n\n\nDo it.", "Do it."),
        ("\n<!--\ncanary GUID\n1234 -->\n# Title\n", "# Title\n"),
        ("# harbor-canary GUID 1234-5678\n\nDo it.\n", "Do it.\n"),
        ("# Canary deployments\n\nDo it.\n", "# Canary deployments\n\nDo it.\n"),
        ("<!-- a note -->\n<!-- canary -->\nDo it.", "<!-- a note -->\n<!-- canary -->\nDo it."),
        ("Do it.\n<!-- canary -->\n", "Do it.\n<!-- canary -->\n"),
        ("<!-- canary --> Do it.", "<!-- canary --> Do it."),
        ("\ufeffDo\r\nit.\r\n", "Do\nit.\n"),
        ("<!-- not closed canary\nDo it.", "<!-- not closed canary\nDo it."),
    ],
)
def test_markers_at_the_top_of_an_instruction_go(
    tmp_path: Path, text: str, instruction: str
) -> None:
    folder = write_task(tmp_path / "t", files={"instruction.md": text})
    assert load(folder).stages[0].instruction == instruction


def test_windows_line_ends_and_a_byte_order_mark_in_task_toml(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "t", '\ufeff[agent]\r\ntimeout_sec = 5\r\nuser = "me"\r\n')
    assert load(folder).stages[0].agent.timeout_seconds == 5


def test_what_will_not_work_as_meant_is_told(tmp_path: Path) -> None:
    files = {
        "tests/test.sh": "#!/bin/sh\r\n",
        "solution/.harborignore": "x",
        "solution/solve.sh": "",
    }
    said = "\n".join(load(write_task(tmp_path / "t", files=files)).warnings)
    assert "tests/test.sh has Windows line ends; it is run with Unix ones" in said
    assert "solution/.harborignore is not read" in said


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("7. Übung (neu)", "7.-bung-neu"),
        (".hidden", "hidden"),
        ("C题", "C"),
        ("a_b-c.d", "a_b-c.d"),
    ],
)
def test_names_of_folders_are_made_safe(tmp_path: Path, folder: str, name: str) -> None:
    task = load(write_task(tmp_path / folder))
    assert (task.id, task.name) == (name, name)


def test_a_link_to_a_task_keeps_its_own_name(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "store" / "v1")
    (tmp_path / "fix-it").symlink_to(folder)
    assert load(tmp_path / "fix-it").name == "fix-it"


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_task(tmp_path / "t") / "tests")
    task = load(Path(os.pardir))
    assert (task.name, task.folder) == ("t", tmp_path / "t")


def test_detection(tmp_path: Path) -> None:
    assert Harbor().detect(write_task(tmp_path / "t"))
    assert not Harbor().detect(tmp_path)
    assert not Harbor().detect(tmp_path / "absent")


def test_the_readme_names_every_key_and_need() -> None:
    text = (Path(__file__).parents[2] / "tasks" / "README.md").read_text()
    models: list[type[BaseModel]] = [RawTask]
    for model in models:  # grows while it is walked
        for key, field in model.model_fields.items():
            assert re.search(rf"\b{key}\b", text), key
            models += [found for found in _models_in(field.annotation) if found not in models]
    assert len(models) > 10
    assert [need for need in Need if f"`{need}`" not in text] == []


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]
