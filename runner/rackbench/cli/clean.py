"""`rackbench clean`."""

from __future__ import annotations

from rackbench.cli.options import Json


def clean(json: Json = False) -> None:
    """Remove containers and engines of dead runs; those of a live run are never touched."""
    from rackbench.cli import render
    from rackbench.orphans import sweep_processes
    from rackbench.sandbox.docker import docker_sandboxes

    processes = sweep_processes()
    with docker_sandboxes() as sandboxes:
        containers = sandboxes.sweep()
    render.cleaned(containers=containers, processes=processes, json=json)
