"""Where the agent of an attempt works: one container, or a project of several."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rackbench import lending
from rackbench.attempt import Attempt
from rackbench.preparation import Prepared
from rackbench.reach import BRIDGE, Surroundings, leads_out, shared_networks
from rackbench.sandbox.compose import ProjectSpec, project
from rackbench.sandbox.compose.amended import Networks
from rackbench.sandbox.container import Container
from rackbench.sandbox.creation import ContainerSpec
from rackbench.sandbox.docker import labels_of
from rackbench.sandbox.images import Image
from rackbench.verifier_tools import AT
from rackbench_harnesses.ports import SandboxError
from rackbench_tasks import Environment


@dataclass(frozen=True, slots=True)
class Workplace:
    """The agent's sandbox, up."""

    main: Container
    """Where the agent works."""
    image: Image
    around: Surroundings
    services: Mapping[str, Container] = field(default_factory=dict)
    """Every service of a compose project."""
    counter: Path | None = None
    """Folder of the host, mounted read-only, into which verifier tools are laid."""

    def service(self, name: str | None) -> Container:
        """A container by its service; None is the agent's own.

        Raises SandboxError.
        """
        if name is None:
            return self.main
        if name not in self.services:
            known = ", ".join(self.services) or "none"
            message = f"the task names a service {name!r}; there is: {known}"
            raise SandboxError(message)
        return self.services[name]


@asynccontextmanager
async def workplace(attempt: Attempt, prepared: Prepared) -> AsyncIterator[Workplace]:
    """The attempt's sandbox, started; removed at the end, which may come early.

    Raises SandboxError.
    """
    task, site = attempt.trial.task, attempt.site
    way_out = leads_out(shared_networks(task), policy=site.plan.spec.sandbox.network)
    async with AsyncExitStack() as stack:
        is_judged_here = not all(stage.verifier.separate for stage in task.stages)
        counter = stack.enter_context(lending.counter(site.plan.tools if is_judged_here else None))
        spec = container_spec(attempt, task.environment, prepared.main)
        if counter:
            spec = replace(spec, read_only_mounts={AT: counter})
        if prepared.resolved is None:
            spec = replace(spec, network=BRIDGE) if way_out else spec
            async with site.starts:
                main = await stack.enter_async_context(
                    site.sandboxes.start(spec, on_teardown_error=attempt.teardown_failed)
                )
            yield Workplace(
                main, prepared.main, Surroundings(BRIDGE if way_out else None), counter=counter
            )
            return
        await stack.enter_async_context(site.projects)
        inner = await stack.enter_async_context(site.networks.take(sealed=True))
        public = None
        if way_out:
            public = await stack.enter_async_context(site.networks.take(sealed=False))
        services = await stack.enter_async_context(
            project(
                site.sandboxes.api,
                _project_spec(attempt, prepared, spec, Networks(inner, public)),
                on_teardown_error=attempt.teardown_failed,
            )
        )
        main = services[prepared.resolved.compose.service]
        around = Surroundings(public, tuple(services))
        yield Workplace(main, prepared.main, around, services, counter)


def container_spec(attempt: Attempt, environment: Environment, image: Image) -> ContainerSpec:
    """A sandbox of the attempt's; limits are the agent's, so that a verifier has no less."""
    trial, site = attempt.trial, attempt.site
    resources, settings = site.plan.resources(trial.task), site.plan.spec.sandbox
    return ContainerSpec(
        image=image.id,
        labels=labels_of(site.run_id, trial.label, attempt.record.attempt),
        cpus=environment.cpus or resources.cpus,
        memory_bytes=environment.memory_bytes or resources.memory_bytes,
        processes=settings.processes,
        user=image.user or "0",
        workdir=environment.workdir,
        env=environment.env,
        gpus=environment.gpus,
        new_privileges=settings.new_privileges,
    )


def _project_spec(
    attempt: Attempt, prepared: Prepared, main: ContainerSpec, networks: Networks
) -> ProjectSpec:
    task, site = attempt.trial.task, attempt.site
    assert prepared.resolved
    whose = f"{site.run_id}/{attempt.trial.label}/{attempt.record.attempt}"
    return ProjectSpec(
        name="rackbench-" + hashlib.sha256(whose.encode()).hexdigest()[:16],
        resolved=prepared.resolved,
        main=main,
        images={name: image.id for name, image in prepared.services.items()},
        networks=networks,
        start_seconds=task.environment.build_timeout_seconds,
        logs=attempt.folder / "services",
    )
