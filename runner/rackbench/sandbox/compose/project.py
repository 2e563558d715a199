"""The life of a project: up and healthy, used, gone with everything that it made."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import docker
import docker.errors

from rackbench.sandbox.compose.amended import Networks, amended
from rackbench.sandbox.compose.program import ComposeError, run_compose
from rackbench.sandbox.compose.resolved import Resolved
from rackbench.sandbox.container import Container
from rackbench.sandbox.creation import ContainerSpec
from rackbench.sandbox.engine import explained, remove
from rackbench_harnesses.ports import SandboxError

T = TypeVar("T")

_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_POLL_SECONDS = 0.1
_TEARDOWN_SECONDS = 60.0
_LOG_LINES = 2000
_SHOWN_BYTES = 400


@dataclass(frozen=True, slots=True)
class ProjectSpec:
    """What a project is made of."""

    name: str
    """Lower-case letters, digits and dashes; not in use on this engine."""
    resolved: Resolved
    main: ContainerSpec
    """The agent's own service: its limits, its user, the labels of all."""
    images: Mapping[str, str]
    """Of each service, ready."""
    networks: Networks
    start_seconds: float
    logs: Path
    """Where the output of the services is kept."""


@asynccontextmanager
async def project(
    api: docker.APIClient, spec: ProjectSpec, *, on_teardown_error: Callable[[str], None]
) -> AsyncIterator[Mapping[str, Container]]:
    """A started and healthy project; its containers by service, all removed at the end.

    Raises SandboxError where it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="rackbench-project-") as scratch:
        try:
            await _up(spec, Path(scratch))
            yield await _containers(api, spec)
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    with anyio.fail_after(_TEARDOWN_SECONDS), explained("removing the project"):
                        await _thread(lambda: _remove_all(api, spec), abandon=True)
                except (SandboxError, TimeoutError) as error:
                    on_teardown_error(str(error) or "removing the project took too long")


async def _up(spec: ProjectSpec, scratch: Path) -> None:
    made = await _thread(
        lambda: amended(spec.resolved, spec.main, spec.images, spec.networks, scratch)
    )
    file = scratch / "compose.json"
    # What the model holds is meant as it stands; compose would interpolate it once more.
    file.write_text(json.dumps({"name": spec.name, **made}).replace("$", "$$"))
    folder = spec.resolved.compose.file.parent
    try:
        await run_compose(
            [
                *("--project-name", spec.name, "--project-directory", str(folder)),
                *("-f", str(file), "--progress", "plain", "up", "--detach", "--no-build"),
            ],
            variables={},
            timeout_seconds=spec.start_seconds,
        )
    except ComposeError as error:
        raise SandboxError(str(error)) from error


async def _containers(api: docker.APIClient, spec: ProjectSpec) -> Mapping[str, Container]:
    """Wait until every service runs as its healthcheck demands, or has ended well."""
    agent = spec.resolved.compose.service
    with explained(f"waiting for the services of {spec.name}"):
        rows = None
        with anyio.move_on_after(spec.start_seconds):
            # The engine tells of a changed health by no call that could be waited for.
            while rows is None:
                await anyio.sleep(_POLL_SECONDS)
                rows = await _thread(lambda: _ready(api, spec))
        if rows is None:
            message = f"the services were not healthy after {spec.start_seconds:g} s"
            raise SandboxError(message)
    containers = {}
    for service, row in rows.items():
        limits = spec.main if service == agent else replace(spec.main, user="0", workdir=None)
        container = Container(api, row["Id"], limits)
        container.networks = set(row["NetworkSettings"]["Networks"])
        if row["State"]["Running"]:
            await container.attach()
        containers[service] = container
    return containers


def _ready(api: docker.APIClient, spec: ProjectSpec) -> dict[str, Any] | None:
    """Each service's container, once all are ready; None while one is not."""
    found = _list(api, spec.name)
    rows = {}
    for service in spec.resolved.services:
        mine = [row for row in found if row["Labels"].get(_SERVICE) == service]
        if not mine:
            return None
        row = rows[service] = api.inspect_container(mine[0]["Id"])
        state = row["State"]
        health = (state.get("Health") or {}).get("Status")
        if not state["Running"] and state["Status"] == "exited" and state["ExitCode"] == 0:
            continue
        if health == "unhealthy" or state["Status"] in ("exited", "dead"):
            log = (state.get("Health") or {}).get("Log") or [{}]
            said = log[-1].get("Output") or _tail(api, row["Id"])
            what = health or f"ended with exit code {state['ExitCode']}"
            message = f"service {service!r} is {what}: {said.strip()[-_SHOWN_BYTES:]}"
            raise SandboxError(message)
        if not state["Running"] or health == "starting":
            return None
    return rows


def _tail(api: docker.APIClient, container_id: str) -> str:
    return bytes(api.logs(container_id, tail=20)).decode(errors="replace")


def _list(api: docker.APIClient, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = api.containers(all=True, filters={"label": f"{_PROJECT}={name}"})
    return rows


def _remove_all(api: docker.APIClient, spec: ProjectSpec) -> None:
    # Twice: where compose was cancelled, the engine may still be making what it had been asked for.
    for _ in range(2):
        for row in _list(api, spec.name):
            _keep_log(api, row, spec.logs)
            remove(api, row["Id"])
    volumes = api.volumes(filters={"label": f"{_PROJECT}={spec.name}"})
    for volume in volumes["Volumes"] or ():
        with suppress(docker.errors.NotFound):
            api.remove_volume(volume["Name"], force=True)


def _keep_log(api: docker.APIClient, row: Mapping[str, Any], folder: Path) -> None:
    with suppress(docker.errors.APIError):
        said = bytes(api.logs(row["Id"], tail=_LOG_LINES))
        if said:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{row['Labels'][_SERVICE]}.log").write_bytes(said)


async def _thread(call: Callable[[], T], *, abandon: bool = False) -> T:
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=abandon)
