"""A compose file as far as a task needs it: the agent's service, and whether it needs compose."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rackbench_tasks.files import read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.compose_service import Service, filled, is_log_folder, read_service
from rackbench_tasks.problem import TaskError, shown

_REFERENCE = re.compile(r"\$(?:\$|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)[^}]*\})", re.ASCII)
_OF_COMPOSE = frozenset({"COMPOSE_PROJECT_NAME"})
_PLAIN_TOP = frozenset({"name", "version", "services"})


@dataclass(frozen=True, slots=True)
class ComposeFile:
    """What a compose file says."""

    path: Path
    services: Mapping[str, Mapping[str, Any]]
    others: tuple[str, ...] = ()
    """Keys beside the services that say something."""
    references: frozenset[str] = field(default_factory=frozenset)
    """Names of the variables that it interpolates."""

    def service(self, name: str, variables: Mapping[str, str]) -> Service:
        """One service with its variables filled in; an absent one says nothing."""
        found = read_service(self.services.get(name, {}), self.path.parent, variables)
        beside = tuple(sorted(set(self.services) - {name}))
        if beside:
            found.beyond.append(f"services beside it: {', '.join(beside)}")
        found.beyond.extend(f"the key {key!r}" for key in self.others)
        return found

    def check_reach(self, task: Path, variables: Mapping[str, str], findings: Findings) -> None:
        """Tell of each folder of this machine that a service mounts, or is built from."""
        folder = self.path.parent
        for name, table in self.services.items():
            for source in _mounted(table.get("volumes"), variables):
                place = Path(os.path.normpath(folder / source))
                if place.is_relative_to(folder) and not source.startswith(("/", "~")):
                    findings.warning(
                        f"{self.path.name} mounts {source} of the task into {name!r}, where the "
                        "agent may see it"
                    )
                else:
                    # No error: one such task must not keep a whole suite from running.
                    findings.warning(
                        f"{self.path.name} mounts {source} of this machine into {name!r}; "
                        "a sandbox gets nothing but the task's own files, so it is unsupported"
                    )
            build = self.service(name, variables).build
            if build and not build.context.is_relative_to(task):
                findings.problem(
                    f"{self.path.name} builds {name!r} from {build.context}, which is outside the "
                    "task"
                )


def read_compose(path: Path) -> ComposeFile:
    """Read a compose file.

    Raises TaskError where it is not one.
    """
    text = read_text(path)
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TaskError(f"{path}: is not YAML: {error}") from error
    services = content.get("services") if isinstance(content, dict) else None
    if not isinstance(services, dict) or not services:
        raise TaskError(f"{path}: has no services; expected a table 'services'")
    for name, service in services.items():
        if not isinstance(service, dict):
            raise TaskError(f"{path}: service {name!r} is {shown(service)}; expected a table")
    others = (
        str(key)
        for key, value in content.items()
        if key not in _PLAIN_TOP and not str(key).startswith("x-") and value
    )
    return ComposeFile(
        path=path,
        services={str(name): service for name, service in services.items()},
        others=tuple(others),
        references=frozenset(_references(content)),
    )


def host_variables(
    file: ComposeFile, known: Mapping[str, str], host_env: Mapping[str, str], findings: Findings
) -> dict[str, str]:
    """Variables that a file may interpolate: the known ones, and what it names of the host."""
    host = {
        name: host_env[name]
        for name in sorted(file.references - set(known) - _OF_COMPOSE)
        if name in host_env
    }
    for name in host:
        findings.warning(f"{file.path.name} hands ${name} of this machine to the sandbox")
    return {**host, **known}


def _mounted(volumes: object, variables: Mapping[str, str]) -> Iterator[str]:
    """Sources of mounts that are paths; log folders, whose place is the runner's, left out."""
    for volume in volumes if isinstance(volumes, list) else ():
        if isinstance(volume, dict):
            source = volume.get("source") if volume.get("type") == "bind" else None
        else:
            source = str(volume).split(":", 1)[0] if ":" in str(volume) else None
        if isinstance(source, str) and not is_log_folder(source):
            source = filled(source, variables)
            if source.startswith(("/", ".", "~")):
                yield source


def _references(value: object) -> Iterator[str]:
    """Variables named in the texts of a file; its comments name none."""
    if isinstance(value, str):
        for match in _REFERENCE.finditer(value):
            if name := match[1] or match[2]:
                yield name
    elif isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
