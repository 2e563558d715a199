"""One service of a compose file: what a plain container can take over, and what it cannot."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackbench_tasks.model import Build

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)"
    r"|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-?+])(?P<default>[^}]*))?\})",
    re.ASCII,
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.ASCII | re.IGNORECASE)
_UNIT_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_SLEEPS = (
    re.compile(r"sleep (?:infinity|\d{4,})"),
    re.compile(r"tail -f /dev/null"),
)
_SHELL = re.compile(r"(?:/(?:usr/)?bin/)?(?:ba|da|)sh -l?c (?P<inner>.+)")
_LOGS = re.compile(r"\$\{?(?:HOST|T_BENCH_TASK)_(?:\w+_)?(?:LOGS|ARTIFACTS)_PATH\b")
_WITHOUT_EFFECT = frozenset(
    {
        "container_name",
        "expose",
        "init",
        "ports",
        "pull_policy",
        "restart",
        "stdin_open",
        "stop_grace_period",
        "tty",
    }
)


@dataclass(slots=True)
class Service:
    """A service, its variables filled in."""

    build: Build | None = None
    image: str | None = None
    """Of a service that is not built."""
    env: dict[str, str] = field(default_factory=dict)
    workdir: str | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    no_network: bool = False
    has_command: bool = False
    """It runs more than a wait for the agent."""
    beyond: list[str] = field(default_factory=list)
    """What a plain container cannot take over, in words; none: it needs no compose."""


def read_service(table: Mapping[str, Any], folder: Path, variables: Mapping[str, str]) -> Service:
    """Read a service of a compose file in `folder`."""
    service = Service()
    readers: dict[str, Callable[[Any], bool]] = {
        "build": lambda value: _build(service, value, folder, variables),
        "image": lambda value: _image(service, value, variables, built="build" in table),
        "command": lambda value: _command(service, value),
        "environment": lambda value: _environment(service, value, variables),
        "working_dir": lambda value: _workdir(service, value, variables),
        "volumes": _only_logs,
        "cpus": lambda value: _cpus(service, value, variables),
        "mem_limit": lambda value: _memory(service, value, variables),
        "deploy": lambda value: _deploy(service, value, variables),
        "network_mode": lambda value: _network(service, value),
    }
    for key, value in table.items():
        if value is None or key in _WITHOUT_EFFECT:
            continue
        if key not in readers or not readers[key](value):
            service.beyond.append(f"the service's {key!r}")
    return service


def filled(text: str, variables: Mapping[str, str]) -> str:
    """A text with its variables replaced as compose does; one that is not known is empty."""

    def value_of(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        value = variables.get(match["bare"] or match["name"])
        how, default = match["how"] or "", match["default"] or ""
        is_there = bool(value) if how.startswith(":") else value is not None
        if how.endswith("+"):
            return default if is_there else ""
        return (value or "") if is_there or not how.endswith("-") else default

    return _VARIABLE.sub(value_of, text)


def is_log_folder(source: str) -> bool:
    """Whether a mount's source is a variable for logs, which the runner collects itself."""
    return bool(_LOGS.match(source))


def _build(service: Service, value: Any, folder: Path, variables: Mapping[str, str]) -> bool:
    table = {"context": value} if isinstance(value, str) else value
    if not isinstance(table, dict):
        return False
    if set(table) - {"context", "dockerfile", "args", "target"}:
        return False
    args = _pairs(table.get("args") or {}, variables)
    if args is None:
        return False
    context = filled(str(table.get("context") or "."), variables)
    place = Path(os.path.normpath(folder / context))
    target = table.get("target")
    service.build = Build(
        context=place,
        dockerfile=filled(str(table.get("dockerfile") or "Dockerfile"), variables),
        args=args,
        target=None if target is None else filled(str(target), variables),
    )
    return "://" not in context and place.is_dir()


def _image(service: Service, value: Any, variables: Mapping[str, str], *, built: bool) -> bool:
    if not isinstance(value, str):
        return False
    if not built:
        # A variable alone names what the runner builds from the folder's Dockerfile.
        service.image = None if value.startswith("$") else filled(value, variables) or None
    return True


def _command(service: Service, value: Any) -> bool:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = " ".join(text.split())
    if match := _SHELL.fullmatch(text):
        text = match["inner"].strip("'\"")
    service.has_command = not any(pattern.fullmatch(text) for pattern in _SLEEPS)
    return not service.has_command


def _environment(service: Service, value: Any, variables: Mapping[str, str]) -> bool:
    pairs = _pairs(value, variables)
    service.env = pairs or {}
    return pairs is not None


def _pairs(value: Any, variables: Mapping[str, str]) -> dict[str, str] | None:
    """A table, or a list of `KEY=value`; None where a value comes from elsewhere."""
    if isinstance(value, list):
        if not all(isinstance(item, str) and "=" in item for item in value):
            return None
        value = dict(item.split("=", 1) for item in value)
    if not isinstance(value, dict) or None in value.values():
        return None
    return {str(key): filled(_plain(item), variables) for key, item in value.items()}


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _workdir(service: Service, value: Any, variables: Mapping[str, str]) -> bool:
    service.workdir = filled(str(value), variables)
    return service.workdir.startswith("/")


def _only_logs(value: Any) -> bool:
    """Mounts of log folders: the runner takes what it needs out of the container."""
    return isinstance(value, list) and all(
        is_log_folder(str(item.get("source", "") if isinstance(item, dict) else item))
        for item in value
    )


def _cpus(service: Service, value: Any, variables: Mapping[str, str]) -> bool:
    if str(value).startswith("$"):
        return True  # the task's own limit, which the runner sets anyway
    text = filled(str(value), variables)
    try:
        service.cpus = float(text)
    except ValueError:
        return False
    return service.cpus > 0


def _memory(service: Service, value: Any, variables: Mapping[str, str]) -> bool:
    if str(value).startswith("$"):
        return True
    match = _SIZE.fullmatch(filled(str(value), variables).strip())
    if not match:
        return False
    service.memory_bytes = int(float(match[1]) * _UNIT_BYTES[match[2].lower()])
    return service.memory_bytes > 0


def _deploy(service: Service, value: Any, variables: Mapping[str, str]) -> bool:
    """Limits of CPUs and memory; what is reserved is no bound."""
    resources = value.get("resources") if isinstance(value, dict) else None
    if not isinstance(resources, dict) or set(value) != {"resources"}:
        return False
    limits = resources.get("limits") or {}
    reserved = resources.get("reservations") or {}
    if not (isinstance(limits, dict) and isinstance(reserved, dict)):
        return False
    if set(limits) - {"cpus", "memory"} or set(reserved) - {"cpus", "memory"}:
        return False
    return ("cpus" not in limits or _cpus(service, limits["cpus"], variables)) and (
        "memory" not in limits or _memory(service, limits["memory"], variables)
    )


def _network(service: Service, value: Any) -> bool:
    service.no_network = value == "none"
    return value in ("none", "bridge", "default")
