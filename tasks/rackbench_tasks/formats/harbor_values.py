"""From keys as `task.toml` writes them to values as the runner uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.harbor_schema import (
    RawEnvironment,
    RawHealthcheck,
    RawPhaseNetwork,
)
from rackbench_tasks.model import Environment, Healthcheck, Network, NetworkMode

_MEGABYTE = 1024 * 1024
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG])", re.ASCII | re.IGNORECASE)
_UNIT_BYTES = {"K": 1024, "M": _MEGABYTE, "G": 1024 * _MEGABYTE}
_FROM_HOST = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def environment_of(
    raw: RawEnvironment, folder: Path, host_env: Mapping[str, str], findings: Findings
) -> Environment:
    """The agent's environment, with what its folder holds."""
    context, compose = folder / "environment", folder / "environment" / "docker-compose.yaml"
    return Environment(
        dockerfile_context=context if (context / "Dockerfile").is_file() else None,
        docker_image=raw.docker_image,
        build_timeout_seconds=raw.build_timeout_sec,
        cpus=raw.cpus,
        memory_bytes=_size_bytes("memory", raw.memory_mb, raw.memory, findings),
        storage_bytes=_size_bytes("storage", raw.storage_mb, raw.storage, findings),
        gpus=raw.gpus,
        gpu_types=raw.gpu_types,
        env=env_of("environment", raw.env, host_env, findings),
        workdir=raw.workdir,
        healthcheck=_healthcheck(raw.healthcheck) if raw.healthcheck else None,
        network=_environment_network(raw, findings),
        compose_file=compose if compose.is_file() else None,
        os=raw.os,
        mcp_servers=tuple(server.model_dump(exclude_none=True) for server in raw.mcp_servers),
        skills_dir=raw.skills_dir,
    )


def network_of(section: str, raw: RawPhaseNetwork, findings: Findings) -> Network | None:
    """A phase's network, where it declares one. Hosts alone mean an allow-list."""
    for host in raw.allowed_hosts:
        if not host.strip() or "://" in host or host.count(":") == 1:
            findings.problem(
                f"'{section}.allowed_hosts' holds {host!r}; expected a host name, *.suffix, an "
                "address or a CIDR, without scheme or port"
            )
    if raw.allowed_hosts and raw.network_mode not in (None, NetworkMode.ALLOWLIST):
        findings.problem(
            f"'{section}.allowed_hosts' contradicts '{section}.network_mode' "
            f'"{raw.network_mode}"; hosts need "allowlist"'
        )
    if raw.network_mode is None and not raw.allowed_hosts:
        return None
    mode = NetworkMode(raw.network_mode or NetworkMode.ALLOWLIST)
    return Network(mode, tuple(host.strip().lower() for host in raw.allowed_hosts))


def env_of(
    section: str, raw: Mapping[str, str], host_env: Mapping[str, str], findings: Findings
) -> dict[str, str]:
    """Variables, each value that is `${VAR}` or `${VAR:-default}` as a whole taken from the host."""
    values: dict[str, str] = {}
    for name, value in raw.items():
        at = f"{section}.env.{name}"
        if not _NAME.fullmatch(name):
            findings.problem(f"{at!r} is no name of a variable; expected letters, digits and _")
        values[name] = _from_host(at, value, host_env, findings)
        if "\0" in values[name]:
            findings.problem(f"{at!r} holds a NUL, which no variable can")
    return values


def _from_host(at: str, value: str, host_env: Mapping[str, str], findings: Findings) -> str:
    match = _FROM_HOST.fullmatch(value)
    if not match:
        if "${" in value:
            findings.warning(f"{at!r} is passed on as written: only a whole value is replaced")
        return value
    name, default = match.groups()
    if name in host_env:
        findings.warning(f"{at!r} hands ${name} of this machine to the sandbox")
        return host_env[name]
    if default is None:
        findings.problem(
            f"{at!r} needs the variable {name}, which is not set; set it, or write "
            f"${{{name}:-default}}"
        )
    return default or ""


def _size_bytes(
    key: str, megabytes: int | None, text: str | None, findings: Findings
) -> int | None:
    current = None if megabytes is None else megabytes * _MEGABYTE
    if text is None:
        return current
    match = _SIZE.fullmatch(text.strip())
    old = int(float(match[1]) * _UNIT_BYTES[match[2].upper()]) if match else 0
    if not old:
        findings.problem(
            f'\'environment.{key}\' is {text!r}; expected a size such as "512M" or "2G", '
            f"or better '{key}_mb' in megabytes"
        )
    elif current not in (None, old):
        findings.problem(
            f"'environment.{key}' is {text!r} and '{key}_mb' is {megabytes}; keep '{key}_mb' alone"
        )
    return old


def _environment_network(raw: RawEnvironment, findings: Findings) -> Network:
    declared = network_of("environment", raw, findings)
    if declared is None:
        return Network(
            NetworkMode.NO_NETWORK if raw.allow_internet is False else NetworkMode.PUBLIC
        )
    if (raw.allow_internet, declared.mode) in (
        (False, NetworkMode.PUBLIC),
        (True, NetworkMode.NO_NETWORK),
    ):
        findings.problem(
            f"'environment.allow_internet' contradicts 'environment.network_mode' "
            f"\"{declared.mode}\"; keep 'network_mode' alone"
        )
    return declared


def _healthcheck(raw: RawHealthcheck) -> Healthcheck:
    return Healthcheck(
        command=raw.command,
        interval_seconds=raw.interval_sec,
        timeout_seconds=raw.timeout_sec,
        start_period_seconds=raw.start_period_sec,
        start_interval_seconds=raw.start_interval_sec,
        retries=raw.retries,
    )
