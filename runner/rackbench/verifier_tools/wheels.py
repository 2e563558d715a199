"""Wheels, fetched by pip as this machine has it configured."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackbench.errors import PrerequisiteError
from rackbench.verifier_tools.script import Request

# Oldest first: what suits an old C library suits a newer one too.
_GLIBC_MINORS = (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of one request."""

    wheels: tuple[str, ...] = ()
    """File names; none where the request could not be answered."""
    problem: str = ""


def fetch_wheels(request: Request, wheels: Path, *, python: str) -> Fetched:
    """Fetch packages with all they depend on, as wheels for one version of Python.

    Conditions on Python's version are judged by the one that runs pip, a limit of pip's.
    """
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheels-", dir=wheels.parent) as staging:
        command = [*_pip(), "download", "--quiet", "--only-binary", ":all:", "--dest", staging]
        command += ["--implementation", "cp", "--python-version", python]
        command += [part for name in _platforms() for part in ("--platform", name)]
        command += ["--find-links", str(wheels)]
        if request.index:
            command += ["--index-url", request.index]
        done = _run([*command, "--", *request.requirements])
        if done.returncode != 0:
            return Fetched(problem=_last_error(done.stderr))
        names = []
        for path in sorted(Path(staging).iterdir()):
            names.append(path.name)
            if not (wheels / path.name).exists():
                path.replace(wheels / path.name)
    return Fetched(tuple(names))


def fetch_uv(target: Path) -> str:
    """Fetch uv, unless it is there; its version.

    Raises PrerequisiteError.
    """
    if not ((target / "uv").exists() and (target / "uvx").exists()):
        with tempfile.TemporaryDirectory(prefix=".uv-", dir=target.parent) as staging:
            _unpack_uv(Path(staging))
            (Path(staging) / "uv.whl").unlink(missing_ok=True)
            target.mkdir(exist_ok=True)
            for name in ("uv", "uvx"):
                (Path(staging) / name).replace(target / name)
    done = _run([target / "uv", "--version"])
    return done.stdout.split()[1] if done.returncode == 0 else "unknown"


def _unpack_uv(staging: Path) -> None:
    command = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = _run([*command, "--dest", staging, "uv"])
    wheel = next(staging.glob("uv-*.whl"), None)
    if wheel is None:
        raise PrerequisiteError(
            f"uv could not be fetched as a wheel: {_last_error(done.stderr)}; go online, or give "
            "pip a mirror (pip config set global.index-url …), and run the command again"
        )
    with zipfile.ZipFile(wheel) as packed:
        for member in packed.namelist():
            name = member.rsplit("/", 1)[-1]
            if name in ("uv", "uvx") and ".data/scripts/" in member:
                (staging / name).write_bytes(packed.read(member))
                (staging / name).chmod(0o755)


def _pip() -> list[str]:
    """The command that is pip. Raises PrerequisiteError."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    raise PrerequisiteError(
        f"there is no pip for {sys.executable} or on the path; run: "
        f"{sys.executable} -m ensurepip --upgrade"
    )


def _platforms() -> list[str]:
    machine = platform.machine()
    return [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS] + [f"linux_{machine}"]


def _run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def _last_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip said nothing"])[-1][:300]
