"""A task's compose file as compose itself understands it, and what of it is refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackbench.sandbox.compose.program import ComposeError, run_compose
from rackbench.sandbox.creation import CAPABILITIES
from rackbench_tasks import Build, Compose

PLACEHOLDER = "rackbench-agent-image"
"""Stands for the image of the task's environment where the file gives the agent's service none."""
LOGS = ".rackbench-logs"
"""A folder that is never there: what would be mounted from it is left out."""
_CONFIG_SECONDS = 60.0
# Where official runners mount folders of the host for logs; ours are inside and copied out.
_LOG_FOLDERS = (
    "HOST_AGENT_LOGS_PATH",
    "HOST_ARTIFACTS_PATH",
    "HOST_VERIFIER_LOGS_PATH",
    "T_BENCH_TASK_AGENT_LOGS_PATH",
    "T_BENCH_TASK_LOGS_PATH",
)
_NAMESPACES = ("network_mode", "pid", "ipc", "userns_mode", "uts", "cgroup")
_HANDED_OUT = ("devices", "gpus", "device_cgroup_rules", "sysctls")


@dataclass(frozen=True, slots=True)
class Resolved:
    """Every service of a project with its variables filled in and its paths made absolute."""

    compose: Compose
    model: Mapping[str, Any]

    @property
    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """By name."""
        services: Mapping[str, Mapping[str, Any]] = self.model["services"]
        return services

    def images(self, own: Build | str | None) -> dict[str, Build | str]:
        """What each service's image is made of; `own` is that of the task's environment.

        Raises ComposeError.
        """
        return {name: self._image(name, service, own) for name, service in self.services.items()}

    def _image(self, name: str, service: Mapping[str, Any], own: Build | str | None) -> Build | str:
        if name == self.compose.service and isinstance(own, str):
            return own  # a prebuilt image goes before a build
        if build := service.get("build"):
            return _build(name, build, self.compose.file)
        image = str(service["image"])
        if image != PLACEHOLDER:
            return image
        if own is None:
            raise ComposeError(
                f"{self.compose.file}: service {name!r} has no image, and its task neither a "
                "Dockerfile nor a docker_image"
            )
        return own


async def resolve(compose: Compose, variables: Mapping[str, str]) -> Resolved:
    """Let compose read a task's file, and refuse what would open the sandbox.

    Raises ComposeError.
    """
    base = json.dumps({"services": {compose.service: {"image": PLACEHOLDER}}})
    folder = compose.file.parent
    # The base comes as a file of its own, since the task's may leave the agent's image out.
    with tempfile.TemporaryDirectory(prefix="rackbench-compose-") as scratch:
        base_file = Path(scratch) / "base.json"
        base_file.write_text(base)
        text = await run_compose(
            [
                *("--project-name", "rackbench", "--project-directory", str(folder)),
                *("-f", str(base_file), "-f", str(compose.file)),
                *("config", "--format", "json"),
            ],
            variables={
                **compose.variables,
                **variables,
                **{name: str(folder / LOGS / name.lower()) for name in _LOG_FOLDERS},
            },
            timeout_seconds=_CONFIG_SECONDS,
        )
    resolved = Resolved(compose, json.loads(text))
    if refused := list(_refused(resolved)):
        raise ComposeError(f"{compose.file}: " + "; ".join(refused))
    return resolved


def _refused(resolved: Resolved) -> Iterator[str]:
    """What no task may ask of the host."""
    for name, service in resolved.services.items():
        yield from (f"service {name!r} {what}" for what in _refused_of(service))
        for volume in service.get("volumes") or ():
            source = Path(volume.get("source") or ".")
            if volume["type"] == "bind" and not _is_below(source, resolved.compose.file.parent):
                yield f"service {name!r} mounts {source}, which is not the task's"
    for kind in ("volumes", "networks"):
        for name, entry in (resolved.model.get(kind) or {}).items():
            if (entry or {}).get("external"):
                yield f"{kind.removesuffix('s')} {name!r} is external"


def _refused_of(service: Mapping[str, Any]) -> Iterator[str]:
    if service.get("privileged"):
        yield "wants to be privileged"
    yield from (f"asks for {key}" for key in _HANDED_OUT if service.get(key))
    for key in _NAMESPACES:
        if str(service.get(key, "")).startswith(("host", "container:")):
            yield f"has {key} {service[key]}"
    more = {cap.removeprefix("CAP_") for cap in service.get("cap_add") or ()}
    if beyond := sorted(more - set(CAPABILITIES)):
        yield f"asks for the capabilities {', '.join(beyond)}"
    for option in service.get("security_opt") or ():
        if "unconfined" in option:
            yield f"has security_opt {option}"


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _build(service: str, build: Mapping[str, Any], file: Path) -> Build:
    context = Path(str(build["context"]))
    if not context.is_dir():
        raise ComposeError(f"{file}: service {service!r} is built from {context}, which is missing")
    if not context.is_relative_to(file.parent.parent):
        raise ComposeError(f"{file}: service {service!r} is built from {context}, outside the task")
    return Build(
        context=context,
        dockerfile=str(build.get("dockerfile") or "Dockerfile"),
        args={key: str(value) for key, value in (build.get("args") or {}).items()},
        target=build.get("target"),
    )
