"""Sandboxes on a Docker daemon of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import requests

from rackbench.errors import PrerequisiteError
from rackbench.sandbox import owner
from rackbench.sandbox.container import Container, container
from rackbench.sandbox.creation import ContainerSpec
from rackbench.sandbox.engine import remove
from rackbench.sandbox.images import Images
from rackbench.sandbox.network_pool import NetworkPool, sweep_networks

_REQUEST_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Host:
    """What the daemon's machine offers."""

    cpus: int
    memory_bytes: int
    architecture: str
    engine_version: str
    data_root: Path
    gpus: bool
    """Whether the engine can hand GPUs to a container."""


class DockerSandboxes:
    """Makes sandboxes, and sweeps away what dead runners left."""

    def __init__(
        self,
        api: docker.APIClient,
        *,
        builds_at_once: int = 1,
        image_map: Mapping[str, str] | None = None,
    ) -> None:
        self.api = api
        self.images = Images(api, builds_at_once=builds_at_once, image_map=image_map)
        info = api.info()
        self.host = Host(
            cpus=int(info["NCPU"]),
            memory_bytes=int(info["MemTotal"]),
            architecture=str(info["Architecture"]),
            engine_version=str(info["ServerVersion"]),
            data_root=Path(info["DockerRootDir"]),
            gpus="nvidia" in info.get("Runtimes", {}),
        )

    def start(
        self, spec: ContainerSpec, *, on_teardown_error: Callable[[str], None]
    ) -> AbstractAsyncContextManager[Container]:
        """A started sandbox, removed at the end of the context."""
        return container(self.api, spec, on_teardown_error=on_teardown_error)

    def networks(self, run_id: str, *, size: int) -> NetworkPool:
        """The networks of a run's compose projects, at most so many."""
        return NetworkPool(self.api, labels_of(run_id, "", 0), size=size)

    def free_disk_bytes(self) -> int | None:
        """Free space where containers write; None where this process may not look."""
        try:
            return shutil.disk_usage(self.host.data_root).free
        except OSError:
            return None

    def sweep(self, *, run_id: str | None = None) -> list[str]:
        """Remove containers whose runner is dead; those of a live one are never touched.

        Networks and volumes go with them. Returns the short ids of the containers.
        """
        label = f"{owner.RUN}={run_id}" if run_id else owner.OWNER
        removed = []
        for row in self.api.containers(all=True, filters={"label": label}):
            maker = owner.owner_of(row.get("Labels"))
            if maker and not maker.is_alive():
                remove(self.api, row["Id"])
                removed.append(str(row["Id"])[:12])
        sweep_networks(self.api, run_id=run_id)
        for volume in self.api.volumes(filters={"label": label})["Volumes"] or ():
            maker = owner.owner_of(volume.get("Labels"))
            if maker and not maker.is_alive():
                self.api.remove_volume(volume["Name"], force=True)
        return removed


@contextmanager
def docker_sandboxes(
    *, builds_at_once: int = 1, image_map: Mapping[str, str] | None = None
) -> Iterator[DockerSandboxes]:
    """Connect to the daemon that the environment names.

    Raises PrerequisiteError with the command that mends it.
    """
    try:
        client = docker.from_env(timeout=_REQUEST_SECONDS)
        client.ping()
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise PrerequisiteError(
            f"no Docker daemon answers: {error}; "
            "run `rackbench doctor --fix docker`, or set DOCKER_HOST"
        ) from error
    try:
        yield DockerSandboxes(client.api, builds_at_once=builds_at_once, image_map=image_map)
    finally:
        client.close()


def labels_of(run_id: str, trial: str, attempt: int) -> Mapping[str, str]:
    """Labels by which an object is known after its runner is dead."""
    return {
        owner.RUN: run_id,
        owner.TRIAL: trial,
        owner.ATTEMPT: str(attempt),
        owner.OWNER: str(owner.this_process()),
    }
