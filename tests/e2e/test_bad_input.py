"""Bad input: one clear message, the right exit code, never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest
from program import RACKBENCH, Program

pytestmark = pytest.mark.docker


def refused(program: Program, code: int, *arguments: object, **env: str) -> str:
    done = subprocess.run(
        [RACKBENCH, *map(str, arguments)],
        cwd=program.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert lines[-1].strip()
    assert sum(line.startswith("rackbench: error: ") for line in lines) == 1
    return done.stderr


def test_no_docker(program: Program) -> None:
    program.write_task("one")
    nowhere = f"unix://{program.folder}/nothing.sock"
    said = refused(program, 3, "run", program.write_run(), DOCKER_HOST=nowhere)
    assert "no Docker daemon answers" in said
    assert "rackbench doctor --fix docker" in said


def test_unknown_harness(program: Program) -> None:
    program.write_task("one")
    said = refused(program, 2, "run", program.write_run(arms=["orakel"]))
    assert "unknown harness 'orakel'; did you mean 'oracle'?" in said


def test_misspelt_key_of_the_run_file(program: Program) -> None:
    program.write_task("one")
    said = refused(program, 2, "run", program.write_run(atempts=3))
    assert "unknown key 'atempts'; did you mean 'attempts'?" in said


def test_misspelt_setting_of_a_harness(program: Program) -> None:
    program.write_task("one")
    arm = {"harness": "loop", "endpoint": "m", "settings": {"mod": "text"}}
    program.write_script({"turns": [{"say": "x"}]})
    endpoints = {"m": {"kind": "scripted", "script": "script.yaml"}}
    said = refused(program, 2, "run", program.write_run(arms=[arm], endpoints=endpoints))
    assert "unknown key 'mod'; did you mean 'mode'?" in said


def test_task_folder_without_dockerfile(program: Program) -> None:
    task = program.write_task("one")
    (task / "environment" / "Dockerfile").unlink()
    said = refused(program, 2, "run", program.write_run())
    assert "Dockerfile" in said
    assert str(task) in said


def test_misspelt_limit_of_a_task(program: Program) -> None:
    task = program.write_task("one") / "task.toml"
    task.write_text(task.read_text().replace("timeout_sec = 60", "timeout_secs = 60", 1))
    said = refused(program, 2, "run", program.write_run())
    assert "timeout_secs" in said
    assert "timeout_sec" in said


def test_port_in_use(program: Program) -> None:
    program.write_task("one")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = program.write_run(
            arms=[{"harness": "loop", "endpoint": "m"}],
            endpoints={"m": {"kind": "vllm", "port": port, "profile": "smollm2-135m"}},
        )
        said = refused(program, 2, "run", file)
    assert f"port {port} is in use" in said


def test_model_path_that_does_not_exist(program: Program) -> None:
    program.write_task("one")
    file = program.write_run(
        arms=[{"harness": "loop", "endpoint": "m"}],
        endpoints={"m": {"kind": "vllm", "model": "/no/such/model"}},
    )
    assert "there is no model folder /no/such/model" in refused(program, 2, "run", file)


def test_nobody_at_the_url(program: Program) -> None:
    program.write_task("one")
    endpoint = {"kind": "external", "url": "http://127.0.0.1:9/v1", "model": "m"}
    file = program.write_run(arms=[{"harness": "loop", "endpoint": "m"}], endpoints={"m": endpoint})
    done = program.call("run", file, check=3)
    assert "http://127.0.0.1:9/v1/models did not answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_disk_below_the_floor(program: Program) -> None:
    program.write_task("one")
    said = refused(program, 3, "run", program.write_run(disk_floor_gb=10**9))
    assert "GiB are free" in said
    assert "disk_floor_gb" in said


def test_runs_that_are_not_there(program: Program) -> None:
    assert "there is no run 'last'" in refused(program, 2, "resume")
    assert "there is no run 'x'" in refused(program, 2, "show", "x")
    assert "there is no run file" in refused(program, 2, "run", "absent.yaml")


def test_dry_run_starts_nothing(program: Program) -> None:
    program.write_task("one")
    done = program.call("run", program.write_run(arms=["oracle", "nop"]), "--dry-run")
    assert "one" in done.stdout
    assert "2 trials" in done.stdout
    assert not (program.folder / "runs").exists()
