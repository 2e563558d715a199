"""What a container is made of, and its making."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.types import DeviceRequest, LogConfig

from rackbench.sandbox.engine import explained

# What the engine grants by default, less raw packets, device nodes and the audit log.
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
KEEP_ALIVE = ("tail", "-f", "/dev/null")
"""Which every image with a shell has."""
NO_NEW_PRIVILEGES = "no-new-privileges"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What a sandbox is made of, and what it may use."""

    image: str
    labels: Mapping[str, str]
    cpus: float
    memory_bytes: int
    processes: int = 512
    network: str = "none"
    user: str = "0"
    """Of commands that name no other."""
    workdir: str | None = None
    """None: the image's own."""
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0
    read_only_mounts: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the host by their place in the container."""
    new_privileges: bool = False
    """True: programs such as sudo may raise privileges."""
    kill_from_inside: bool = False
    """True: end processes through the container alone, as a runner that is not root must."""


def create(api: docker.APIClient, spec: ContainerSpec) -> str:
    """Create a container that waits for commands; returns its id.

    Raises SandboxError.
    """
    limits: dict[str, Any] = {
        "nano_cpus": int(spec.cpus * 1e9),
        "mem_limit": spec.memory_bytes,
        "memswap_limit": spec.memory_bytes,  # no swap: a limit that swaps measures the disk
        "pids_limit": spec.processes,
    }
    if spec.gpus:
        limits["device_requests"] = [DeviceRequest(count=spec.gpus, capabilities=[["gpu"]])]
    host_config = api.create_host_config(
        init=True,
        network_mode=spec.network,
        cap_drop=["ALL"],
        cap_add=list(CAPABILITIES),
        security_opt=[] if spec.new_privileges else [NO_NEW_PRIVILEGES],
        log_config=LogConfig(type=LogConfig.types.NONE),
        binds=[f"{path}:{target}:ro" for target, path in spec.read_only_mounts.items()],
        **limits,
    )
    with explained(f"creating a container of {spec.image}"):
        created = api.create_container(
            spec.image,
            command=list(KEEP_ALIVE),
            environment=dict(spec.env),
            labels=dict(spec.labels),
            # The engine takes all capabilities from the root of a container that another user began.
            user="0",
            working_dir=spec.workdir,
            host_config=host_config,
        )
    return str(created["Id"])
