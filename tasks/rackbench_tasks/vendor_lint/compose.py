"""The compose file, where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from rackbench_tasks.formats.lines import yaml_lines
from rackbench_tasks.vendor_lint.bundle import Bundle
from rackbench_tasks.vendor_lint.finding import LintFinding, error
from rackbench_tasks.vendor_lint.taxonomy import is_reserved

FILE = "environment/docker-compose.yaml"
_AREA = "agent-image"
_CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN")
_SOCKET = "docker.sock"


@dataclass(frozen=True, slots=True)
class ComposeFile:
    """What a compose file says, and in which line."""

    services: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""

    def where(self, key: str) -> str:
        """The line of a key, or of the nearest above it."""
        while key:
            if key in self.lines:
                return f"{FILE}:{self.lines[key]}"
            key = key.rpartition(".")[0]
        return FILE


def read_compose(bundle: Bundle) -> ComposeFile | None:
    """The task's compose file; None where it has none."""
    text = bundle.text(FILE)
    if text is None:
        return None
    try:
        content, lines = yaml.safe_load(text), yaml_lines(text)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        return ComposeFile(problem=str(problem).splitlines()[0])
    services = content.get("services") if isinstance(content, dict) else None
    if not isinstance(services, dict):
        return ComposeFile(problem="it has no table `services`")
    return ComposeFile({str(name): one or {} for name, one in services.items()}, lines)


def compose_rules(compose: ComposeFile) -> Iterator[LintFinding]:
    """What no service may have."""
    if compose.problem:
        yield error(f"{_AREA}/compose-unreadable", FILE, f"cannot be read: {compose.problem}")
    for name, service in compose.services.items():
        if isinstance(service, dict):
            yield from _service(compose, f"services.{name}", service)


def _service(compose: ComposeFile, at: str, service: Mapping[str, Any]) -> Iterator[LintFinding]:
    if "platform" in service:
        yield error(
            f"{_AREA}/platform",
            compose.where(f"{at}.platform"),
            "names a platform; leave it out, so that the task runs everywhere",
        )
    if service.get("privileged"):
        yield error(
            f"{_AREA}/privileged",
            compose.where(f"{at}.privileged"),
            "is privileged, which opens the host to the agent; leave it out",
        )
    for number, capability in enumerate(_list(service.get("cap_add"))):
        if str(capability).upper().removeprefix("CAP_") in (*_CAPABILITIES, "ALL"):
            yield error(
                f"{_AREA}/capability",
                compose.where(f"{at}.cap_add.{number}"),
                f"asks for {capability}, which opens the host to the agent; leave it out",
            )
    image = service.get("image")
    if isinstance(image, str) and "build" not in service and not _is_pinned(image):
        yield error(
            f"{_AREA}/from-not-pinned",
            compose.where(f"{at}.image"),
            f"the image {image} has no digest, and may be another one tomorrow; "
            "write name:tag@sha256:…",
        )
    for number, volume in enumerate(_list(service.get("volumes"))):
        yield from _volume(compose.where(f"{at}.volumes.{number}"), volume)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_pinned(image: str) -> bool:
    # ${…} is the agent's own image, which the runner fills in.
    return "$" in image or re.search(r"@sha256:[0-9a-f]{64}$", image) is not None


def _volume(where: str, volume: Any) -> Iterator[LintFinding]:
    if isinstance(volume, dict):
        source, target = str(volume.get("source") or ""), str(volume.get("target") or "")
        is_bind = volume.get("type") == "bind"
    else:
        source, _, rest = str(volume).partition(":")
        target = rest.partition(":")[0] or source
        is_bind = bool(rest) and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", source)
    if _SOCKET in f"{source} {target}":
        yield error(
            f"{_AREA}/docker-socket",
            where,
            "mounts the socket of Docker, with which the agent owns the host; leave it out",
        )
    elif is_bind:
        yield error(
            f"{_AREA}/bind-mount",
            where,
            f"mounts {source} of the host; only named volumes are allowed; copy it into an image",
        )
    if is_reserved(target.rstrip("/")):
        yield error(
            f"{_AREA}/reserved-path",
            where,
            f"mounts something at {target}, which belongs to the verifier or the oracle; "
            "use another path",
        )
