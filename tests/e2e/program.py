"""Runs of the real program, on real Docker, against a scripted model over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

RACKBENCH = str(Path(sys.executable).with_name("rackbench"))

TASK = """\
schema_version = "1.4"
[task]
name = "test/{name}"
[agent]
timeout_sec = {agent_seconds}
[verifier]
timeout_sec = {verifier_seconds}
[environment]
cpus = 1
memory_mb = 256
network_mode = "no-network"
workdir = "/app"
"""
RIGHT_ANSWER = """\
#!/bin/sh
if [ "$(cat /app/answer 2>/dev/null)" = 42 ]; then r=1; else r=0; fi
echo $r >/logs/verifier/reward.txt
"""


@dataclass
class Program:
    """`rackbench` in a folder of its own."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write_task(
        self,
        name: str,
        *,
        test: str = RIGHT_ANSWER,
        solve: str = "echo 42 >/app/answer\n",
        agent_seconds: float = 60,
        verifier_seconds: float = 60,
    ) -> Path:
        task = self.folder / "tasks" / name
        for part in ("environment", "tests", "solution"):
            (task / part).mkdir(parents=True, exist_ok=True)
        (task / "task.toml").write_text(
            TASK.format(name=name, agent_seconds=agent_seconds, verifier_seconds=verifier_seconds)
        )
        (task / "instruction.md").write_text(f"Task {name}: write 42 to /app/answer.\n")
        (task / "environment" / "Dockerfile").write_text("FROM rackbench/base:1\nWORKDIR /app\n")
        (task / "tests" / "test.sh").write_text(test)
        (task / "solution" / "solve.sh").write_text(solve)
        return task

    def write_files(self, name: str, files: dict[str, str]) -> Path:
        """A task of any shape, file by file."""
        task = self.folder / "tasks" / name
        for path, text in files.items():
            target = task / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return task

    def write_script(self, *conversations: dict[str, Any], **extra: Any) -> Path:
        script = self.folder / "script.yaml"
        script.write_text(yaml.safe_dump({"conversations": list(conversations), **extra}))
        return script

    def write_run(self, **values: Any) -> Path:
        file = self.folder / "run.yaml"
        defaults: dict[str, Any] = {"name": "test", "tasks": "tasks", "arms": ["oracle"]}
        file.write_text(yaml.safe_dump(defaults | values))
        return file

    def call(self, *arguments: object, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [RACKBENCH, *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        if check is not None:
            assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        log = self.folder / "started.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [RACKBENCH, *map(str, arguments)],
                cwd=self.folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def run_folder(self) -> Path:
        (found,) = (path.parent for path in self.folder.glob("runs/*/plan.json"))
        return found

    def results(self) -> list[dict[str, Any]]:
        """Committed results of all attempts."""
        found = self.run_folder().glob("trials/*/*/*/attempt-*/result.json")
        return [json.loads(path.read_text()) | {"path": path} for path in sorted(found)]

    def final(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by task/arm."""
        return {f"{result['path'].parts[-5]}/{result['arm']}": result for result in self.results()}

    def wait_for(self, condition: Callable[[], object], seconds: float = 60) -> None:
        """Until something is so; the limit only keeps a broken test from hanging."""
        for _ in range(int(seconds / 0.02)):
            if condition():
                return
            time.sleep(0.02)
        log = self.folder / "started.log"
        pytest.fail("it never came to that\n" + (log.read_text() if log.exists() else ""))

    def attempts_begun(self) -> int:
        return len(list(self.folder.glob("runs/*/trials/*/*/*/attempt-*/attempt.json")))

    def results_written(self) -> int:
        return len(list(self.folder.glob("runs/*/trials/*/*/*/attempt-*/result.json")))


@pytest.fixture
def program(tmp_path: Path, base_image: str) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def nothing_left(docker_api: docker.APIClient) -> Callable[[str], None]:
    """Asserts that no container of a run exists."""

    def check(run_id: str) -> None:
        left = docker_api.containers(all=True, filters={"label": f"rackbench.run={run_id}"})
        assert [row["Status"] for row in left] == []

    return check


def bash(command: str) -> dict[str, Any]:
    """A turn of a script that calls the bash tool."""
    return {"call": {"name": "bash", "arguments": {"command": command}}}


SUBMIT: dict[str, Any] = {"call": {"name": "submit", "arguments": {}}}
LOOP = {"harness": "loop", "endpoint": "model"}
SCRIPTED = {"model": {"kind": "scripted", "script": "script.yaml"}}


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip()
