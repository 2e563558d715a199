"""What a run's machine is: recorded, since it moves scores."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import psutil

from rackbench import __version__
from rackbench.sandbox.docker import Host

_QUERY = "name,driver_version,memory.total"


def describe_host(docker_host: Host) -> dict[str, Any]:
    """`environment.json`: machine, versions, GPUs, load at the start of the run."""
    return {
        "schema_version": 1,
        "at": datetime.now(UTC).isoformat(),
        "rackbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": list(os.getloadavg()),
        "docker": {
            "engine": docker_host.engine_version,
            "sdk": version("docker"),
            "architecture": docker_host.architecture,
        },
        "gpus": gpus(),
    }


def gpus() -> list[dict[str, str]]:
    """NVIDIA GPUs of this machine; empty where there are none."""
    if not shutil.which("nvidia-smi"):
        return []
    asked = subprocess.run(
        ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    names = ("name", "driver", "memory")
    return [
        dict(zip(names, (part.strip() for part in line.split(",")), strict=False))
        for line in asked.stdout.splitlines()
        if line.strip()
    ]
