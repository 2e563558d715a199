"""Profiles: what is known of a model, as data."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path

import yaml

from rackbench.errors import UsageError
from rackbench.gateway import Policy
from rackbench_harnesses.settings import Settings, SettingsError, read_settings
from rackbench_results.records import ListPrice

_SHIPPED = "rackbench.endpoint.profiles"


class Profile(Settings):
    """One model family: how to serve it, and what its answers need."""

    name: str
    source: str = ""
    """Where the figures were read."""
    date: str = ""
    assumed: tuple[str, ...] = ()
    """What was assumed rather than read; printed with every plan."""
    served_name: str | None = None
    """Name under which the engine serves it."""
    context_tokens: int | None = None
    arguments: tuple[str, ...] = ()
    """Of `vllm serve`, for every device."""
    cpu_arguments: tuple[str, ...] = ()
    """Added where the engine runs on a CPU."""
    tools: bool = True
    """The served model can call tools."""
    list_price: ListPrice | None = None
    """What the maker's API asks for the same tokens."""
    policy: Policy = Policy()
    """What the gateway enforces, since the engine does not."""

    @property
    def digest(self) -> str:
        """Of what changes answers: the policy."""
        content = json.dumps(self.policy.model_dump(mode="json"), sort_keys=True)
        return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(
        path.name.removesuffix(".yaml")
        for path in resources.files(_SHIPPED).iterdir()
        if path.name.endswith(".yaml")
    )


def load_profile(name: str | None, *, beside: Path) -> Profile:
    """A shipped profile, or one in a file relative to the run file; none named: an empty one.

    Raises UsageError.
    """
    if name is None:
        return Profile(name="none")
    if name in shipped_profiles():
        text, origin = (resources.files(_SHIPPED) / f"{name}.yaml").read_text(), name
    else:
        path = beside / name
        if not path.is_file():
            shipped = ", ".join(shipped_profiles())
            raise UsageError(f"no profile {name!r}: neither shipped ({shipped}) nor a file {path}")
        text, origin = path.read_text(), str(path)
    try:
        values = yaml.safe_load(text)
        if not isinstance(values, dict):
            raise UsageError(f"profile {origin}: expected keys and values")
        return read_settings(Profile, values)
    except (yaml.YAMLError, SettingsError) as error:
        raise UsageError(f"profile {origin}: {error}") from error
