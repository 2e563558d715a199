"""Builds images once more without a cache, to see whether they come out the same."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import docker
import docker.errors

from rackbench.sandbox import owner
from rackbench_tasks import Environment

_BUILDKIT_ONLY = re.compile(r"^\s*RUN\s+.*--mount=|<<-?['\"]?\w+", re.MULTILINE)
_REPOSITORY = "rackbench/rebuilt"
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """An image built again, or why it could not be."""

    tag: str = ""
    id: str = ""
    problem: str = ""


def rebuild_all(
    api: docker.APIClient, environments: Mapping[str, Environment], *, at_once: int
) -> dict[str, Rebuilt]:
    """Each environment's image anew, by the same key; what names a finished image is left out."""
    wanted = {
        key: environment
        for key, environment in environments.items()
        if environment.build and not environment.docker_image
    }
    with ThreadPoolExecutor(at_once) as threads:
        made = threads.map(lambda environment: _rebuild(api, environment), wanted.values())
        return dict(zip(wanted, made, strict=True))


def forget(api: docker.APIClient, rebuilt: Rebuilt) -> None:
    """Remove what was built again."""
    if rebuilt.tag:
        try:
            api.remove_image(rebuilt.tag)
        except docker.errors.APIError:
            return  # gone already, or in use: labels name it


def _rebuild(api: docker.APIClient, environment: Environment) -> Rebuilt:
    build = environment.build
    assert build
    tag = f"{_REPOSITORY}:{secrets.token_hex(8)}"
    dockerfile = build.context / build.dockerfile
    arguments = ["docker", "build", "--no-cache", "--force-rm", "--tag", tag]
    arguments += ["--label", "rackbench.image=task", "--label", f"{owner.OWNER}=shared"]
    arguments += ["--file", str(dockerfile)]
    arguments += [x for pair in build.args.items() for x in ("--build-arg", "=".join(pair))]
    arguments += ["--target", build.target] if build.target else []
    buildkit = _BUILDKIT_ONLY.search(dockerfile.read_text(errors="replace"))
    try:
        done = subprocess.run(
            [*arguments, str(build.context)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DOCKER_BUILDKIT": "1" if buildkit else "0"},
            timeout=environment.build_timeout_seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Rebuilt(problem=str(error))
    if done.returncode:
        lines = done.stdout.decode(errors="replace").splitlines()[-_LAST_LINES:]
        return Rebuilt(problem="\n".join(lines))
    return Rebuilt(tag, str(api.inspect_image(tag)["Id"]))  # type: ignore[no-untyped-call]
