"""From keys as `task.toml` writes them to values as the runner uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.harbor_schema import RawEnvironment, RawPhaseNetwork
from rackbench_tasks.model import Network, NetworkMode

MEGABYTE = 1024 * 1024
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG])", re.ASCII | re.IGNORECASE)
_UNIT_BYTES = {"K": 1024, "M": MEGABYTE, "G": 1024 * MEGABYTE}
_FROM_HOST = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def network_of(section: str, raw: RawPhaseNetwork, findings: Findings) -> Network | None:
    """A phase's network, where it declares one. Hosts alone mean an allow-list."""
    at = f"{section}.allowed_hosts"
    for host in raw.allowed_hosts:
        if not host.strip() or "://" in host or host.count(":") == 1:
            findings.problem(
                f"{at!r} holds {host!r}; expected a host name, *.suffix, an "
                "address or a CIDR, without scheme or port",
                key=at,
            )
    if raw.allowed_hosts and raw.network_mode not in (None, NetworkMode.ALLOWLIST):
        findings.problem(
            f"{at!r} contradicts '{section}.network_mode' "
            f'"{raw.network_mode}"; hosts need "allowlist"',
            key=at,
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
            findings.problem(
                f"{at!r} is no name of a variable; expected letters, digits and _", key=at
            )
        values[name] = _from_host(at, value, host_env, findings)
        if "\0" in values[name]:
            findings.problem(f"{at!r} holds a NUL, which no variable can", key=at)
    return values


def _from_host(at: str, value: str, host_env: Mapping[str, str], findings: Findings) -> str:
    match = _FROM_HOST.fullmatch(value)
    if not match:
        if "${" in value:
            findings.warning(
                f"{at!r} is passed on as written: only a whole value is replaced", key=at
            )
        return value
    name, default = match.groups()
    if name in host_env:
        findings.warning(f"{at!r} hands ${name} of this machine to the sandbox", key=at)
        return host_env[name]
    if default is None:
        findings.problem(
            f"{at!r} needs the variable {name}, which is not set; set it, or write "
            f"${{{name}:-default}}",
            key=at,
        )
    return default or ""


def size_bytes(at: str, megabytes: int | None, text: str | None, findings: Findings) -> int | None:
    """A size in bytes, from megabytes or, as it was written once, a text with a unit."""
    current = None if megabytes is None else megabytes * MEGABYTE
    if text is None:
        return current
    key = at.rpartition(".")[2]
    match = _SIZE.fullmatch(text.strip())
    old = int(float(match[1]) * _UNIT_BYTES[match[2].upper()]) if match else 0
    if not old:
        findings.problem(
            f'{at!r} is {text!r}; expected a size such as "512M" or "2G", '
            f"or better '{key}_mb' in megabytes",
            key=at,
        )
    elif current not in (None, old):
        findings.problem(
            f"{at!r} is {text!r} and '{key}_mb' is {megabytes}; keep '{key}_mb' alone", key=at
        )
    return old


def environment_network(section: str, raw: RawEnvironment, findings: Findings) -> Network:
    """An environment's network, `allow_internet` among what says it."""
    declared = network_of(section, raw, findings)
    if declared is None:
        return Network(
            NetworkMode.NO_NETWORK if raw.allow_internet is False else NetworkMode.PUBLIC
        )
    if (raw.allow_internet, declared.mode) in (
        (False, NetworkMode.PUBLIC),
        (True, NetworkMode.NO_NETWORK),
    ):
        findings.problem(
            f"'{section}.allow_internet' contradicts '{section}.network_mode' "
            f"\"{declared.mode}\"; keep 'network_mode' alone",
            key=f"{section}.allow_internet",
        )
    return declared
