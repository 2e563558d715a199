"""A project made fit for a sandbox: our images, networks, limits and labels; nothing of the host."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackbench.sandbox.compose.resolved import LOGS, Resolved
from rackbench.sandbox.creation import CAPABILITIES, KEEP_ALIVE, NO_NEW_PRIVILEGES, ContainerSpec

_DROPPED = (
    "build",
    "container_name",
    "hostname",
    "image",
    "links",
    "logging",
    "networks",
    "ports",
    "profiles",
    "restart",
    "stop_grace_period",
    "pull_policy",
    "x-develop",
    "develop",
)
_LOGGING = {"driver": "json-file", "options": {"max-size": "1m", "max-file": "1"}}
# Never among what an agent may see of its own task.
_ANSWERS = ("tests", "solution", "solution.sh", "solution.yaml", "run-tests.sh", "solve.sh")


@dataclass(frozen=True, slots=True)
class Networks:
    """Names of the engine's networks that a project uses."""

    inner: str
    """Between its services; it leads nowhere else."""
    public: str | None = None
    """To the world, for all its services."""


def amended(
    resolved: Resolved,
    main: ContainerSpec,
    images: Mapping[str, str],
    networks: Networks,
    scratch: Path,
) -> dict[str, Any]:
    """The project that is really started. Mounted files of the task are copied below `scratch`."""
    services = {
        name: _service(name, dict(service), main, images[name], networks)
        for name, service in resolved.services.items()
    }
    agent = services[resolved.compose.service]
    _harden_agent(agent, main, keep_command=resolved.compose.keep_command)
    folder = resolved.compose.file.parent
    for service in services.values():
        service["volumes"] = [
            _own_copy(volume, folder, scratch)
            for volume in service.get("volumes") or ()
            if not str(volume.get("source", "")).startswith(str(folder / LOGS))
        ]
    names = {"inner": networks.inner} | ({"public": networks.public} if networks.public else {})
    return {
        "services": services,
        "networks": {key: {"name": name, "external": True} for key, name in names.items()},
        "volumes": {
            name: {"labels": dict(main.labels)} for name in resolved.model.get("volumes") or {}
        },
        **{key: resolved.model[key] for key in ("configs", "secrets") if key in resolved.model},
    }


def _service(
    name: str, service: dict[str, Any], main: ContainerSpec, image: str, networks: Networks
) -> dict[str, Any]:
    aliases = _aliases(name, service)
    shares_network = "network_mode" in service
    made = {key: value for key, value in service.items() if key not in _DROPPED}
    made |= {
        "image": image,
        "labels": {**(service.get("labels") or {}), **main.labels},
        "logging": _LOGGING,
        "restart": "no",
        "stop_grace_period": "0s",
        "init": True,
        "pids_limit": main.processes,
        "pull_policy": "never",
        "cap_drop": [*(service.get("cap_drop") or ()), "NET_RAW", "MKNOD", "AUDIT_WRITE"],
    }
    if not main.new_privileges:
        made["security_opt"] = [*(service.get("security_opt") or ()), NO_NEW_PRIVILEGES]
    if not shares_network:
        made["networks"] = {"inner": {"aliases": aliases}}
        if networks.public:
            made["networks"]["public"] = {}
        else:
            # Nobody answers for outside names here; without this each lookup would wait 10 s.
            made["dns_opt"] = ["timeout:1", "attempts:1"]
    if hostname := service.get("hostname"):
        made["hostname"] = hostname
    limits = ((service.get("deploy") or {}).get("resources") or {}).get("limits") or {}
    if "mem_limit" not in service and "memory" not in limits:
        made["mem_limit"] = str(main.memory_bytes)
    made.pop("deploy", None)
    if "memory" in limits:
        made["mem_limit"] = str(limits["memory"])
    if "cpus" in limits:
        made["cpus"] = float(limits["cpus"])
    return made


def _aliases(name: str, service: Mapping[str, Any]) -> list[str]:
    """Every name by which others may call a service, whichever of its networks they share."""
    names = [name, service.get("container_name"), service.get("hostname")]
    for network in (service.get("networks") or {}).values():
        names += (network or {}).get("aliases") or ()
    return sorted({str(known) for known in names if known})


def _harden_agent(agent: dict[str, Any], main: ContainerSpec, *, keep_command: bool) -> None:
    """The agent's own service is a sandbox like any other."""
    if not keep_command:
        agent["command"] = list(KEEP_ALIVE)
    agent["user"] = "0"  # commands name their user
    agent["cap_drop"] = ["ALL"]
    agent["cap_add"] = list(CAPABILITIES)
    agent["environment"] = {**(agent.get("environment") or {}), **main.env}
    agent["cpus"] = main.cpus
    agent["mem_limit"] = agent["memswap_limit"] = str(main.memory_bytes)
    if main.workdir:
        agent["working_dir"] = main.workdir
    agent["volumes"] = [
        *(agent.get("volumes") or ()),
        *(
            {"type": "bind", "source": str(path), "target": target, "read_only": True}
            for target, path in main.read_only_mounts.items()
        ),
    ]


def _own_copy(volume: dict[str, Any], folder: Path, scratch: Path) -> dict[str, Any]:
    """A mount of the task's files, from a copy: a run changes no task, and shows no answer."""
    if volume["type"] != "bind" or not Path(volume["source"]).is_relative_to(folder):
        return volume
    source = Path(volume["source"])
    copy = scratch / "mounts" / (source.relative_to(folder).as_posix().replace("/", "_") or "task")
    if not copy.exists():
        _copy(source, copy, without=_ANSWERS if source == folder else ())
    return {**volume, "source": str(copy)}


def _copy(source: Path, copy: Path, *, without: Sequence[str]) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns(*without))
    elif source.exists():
        shutil.copy2(source, copy)
    else:
        copy.mkdir()  # as the engine does with a source that is not there
