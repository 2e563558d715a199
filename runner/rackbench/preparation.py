"""Before an attempt: what its task needs is there, and every image is ready."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from rackbench.attempt import Attempt
from rackbench.errors import UsageError
from rackbench.plan import unsupported
from rackbench.reach import agent_network, permitted, verifier_network
from rackbench.sandbox.allow_list import parse_allow_list
from rackbench.sandbox.compose import ComposeError, Resolved, find_program, resolve
from rackbench.sandbox.images import Image
from rackbench.site import Site
from rackbench.verdict import FaultError
from rackbench_results.outcomes import Reason
from rackbench_tasks import Build, Environment, NetworkMode, Task

_GIGABYTE = 1024**3
_SAME_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """Images of an attempt, ready to be started."""

    main: Image
    """Of the agent's own container."""
    services: Mapping[str, Image] = field(default_factory=dict)
    """Of every service of a compose project."""
    resolved: Resolved | None = None
    verifiers: Mapping[str, Image] = field(default_factory=dict)
    """Of separate verifiers, by the name of their stage."""


def check_supported(task: Task, site: Site) -> None:
    """Raises FaultError: unsupported, with what is missing here."""
    if found := unsupported(task):
        raise FaultError(*found)
    host = site.sandboxes.host
    if task.environment.gpus and not host.gpus:
        types = " or ".join(task.environment.gpu_types) or "any"
        raise FaultError(
            Reason.GPU,
            f"asks for {task.environment.gpus} GPUs ({types}); the engine here hands out none "
            "(is the NVIDIA container toolkit installed?)",
        )
    if task.environment.compose and find_program() is None:
        raise FaultError(
            Reason.COMPOSE,
            "needs `docker compose`, which is not installed here; "
            "run `rackbench doctor --fix compose`",
        )
    _check_allow_lists(task, site)
    asked = site.plan.resources(task)
    if asked.cpus > host.cpus or asked.memory_bytes > host.memory_bytes:
        raise FaultError(
            Reason.RESOURCES,
            f"asks for {asked.cpus:g} CPUs and {asked.memory_bytes / _GIGABYTE:.1f} GiB; this "
            f"machine has {host.cpus} and {host.memory_bytes / _GIGABYTE:.1f} GiB",
        )


def check_disk(site: Site) -> None:
    """Raises FaultError: disk."""
    free, floor = site.sandboxes.free_disk_bytes(), site.plan.spec.disk_floor_gb * _GIGABYTE
    if free is not None and free < floor:
        raise FaultError(
            Reason.DISK,
            f"{free / _GIGABYTE:.1f} GiB free on {site.sandboxes.host.data_root}, "
            f"the floor is {floor / _GIGABYTE:.1f}",
        )


async def prepare(attempt: Attempt) -> Prepared:
    """Build or pull every image of the attempt's task.

    Raises ImageError; FaultError where the engine cannot run one, or compose refuses the project.
    """
    task = attempt.trial.task
    verifiers = {
        stage.name: await _image(attempt, stage.verifier.environment or task.environment)
        for stage in task.stages
        if stage.verifier.separate
    }
    if task.environment.compose is None:
        main = await _image(attempt, task.environment)
        attempt.image = main.id
        return Prepared(main, verifiers=verifiers)
    try:
        resolved = await resolve(task.environment.compose, task.environment.env)
        recipes = resolved.images(_source(task.environment))
    except ComposeError as error:
        raise FaultError(Reason.COMPOSE, str(error)) from error
    seconds = task.environment.build_timeout_seconds
    services = {name: await _ensure(attempt, recipe, seconds) for name, recipe in recipes.items()}
    main = services[task.environment.compose.service]
    attempt.image = main.id
    return Prepared(main, services, resolved, verifiers)


async def _image(attempt: Attempt, environment: Environment) -> Image:
    source = _source(environment)
    if source is None:
        raise FaultError(Reason.BUILD, "the task names no image and has no Dockerfile")
    return await _ensure(attempt, source, environment.build_timeout_seconds)


async def _ensure(attempt: Attempt, source: Build | str, seconds: float) -> Image:
    sandboxes = attempt.site.sandboxes
    image = await sandboxes.images.ensure(
        source, timeout_seconds=seconds, on_build=lambda name: attempt.log.event("build", name)
    )
    attempt.notes.extend(image.notes)
    for name, used in image.mapped.items():
        attempt.log.event("image_map", f"{name}: {used}")
    host = _SAME_ARCHITECTURE.get(sandboxes.host.architecture)
    if host and image.architecture not in ("", host):
        raise FaultError(Reason.ARCHITECTURE, f"the image is for {image.architecture}, not {host}")
    return image


def _source(environment: Environment) -> Build | str | None:
    return environment.docker_image or environment.build


def _check_allow_lists(task: Task, site: Site) -> None:
    policy = site.plan.spec.sandbox.network
    for stage in task.stages:
        for declared in (agent_network(task, stage), verifier_network(task, stage)):
            network = permitted(declared, policy=policy)
            if network.mode is not NetworkMode.ALLOWLIST:
                continue
            if os.geteuid() != 0:
                raise FaultError(
                    Reason.RESOURCES, "an allow-list of hosts needs a runner that is root"
                )
            try:
                parse_allow_list(network.allowed_hosts)
            except UsageError as error:
                raise FaultError(Reason.RESOURCES, str(error)) from error
