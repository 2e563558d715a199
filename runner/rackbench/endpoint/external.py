"""The endpoint that somebody else runs: a URL."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import aiohttp
from pydantic import Field

from rackbench.endpoint.profile import load_profile
from rackbench.endpoint.serving import Place, Report, Serving
from rackbench.endpoint.settings import EndpointSettings
from rackbench.errors import EndpointError, UsageError
from rackbench.gateway import Upstream
from rackbench_results.records import EndpointIdentity

_ASK = aiohttp.ClientTimeout(total=15)


class ExternalSettings(EndpointSettings):
    """A model that answers at a URL."""

    url: Annotated[str, Field(pattern=r"^https?://")]
    """Up to and including /v1; may change between a run and its resumption."""
    model: str
    """Name under which it is served."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key."""
    serving: dict[str, str] = Field(default_factory=dict)
    """What its operator says about weights, engine and arguments; part of its identity."""
    context_tokens: int | None = None
    """None: as the server tells."""


class External:
    """The endpoint kind `external`."""

    Settings = ExternalSettings
    needs_preflight = True

    def __init__(self, settings: EndpointSettings, *, beside: Path) -> None:
        assert isinstance(settings, ExternalSettings)
        self.settings = settings
        self.profile = load_profile(settings.profile, beside=beside)

    def identity(self) -> EndpointIdentity:
        """As the run file declares it; the address is not part of it."""
        return EndpointIdentity(
            kind="external",
            model=self.settings.model,
            serving_arguments=tuple(f"{k}={v}" for k, v in sorted(self.settings.serving.items())),
            profile=self.profile.digest,
            context_tokens=self.settings.context_tokens or self.profile.context_tokens,
        )

    @asynccontextmanager
    async def serve(self, place: Place, report: Report) -> AsyncIterator[Serving]:
        """Ask who is there, and use it."""
        url = self.settings.url.rstrip("/")
        upstream = Upstream(url, self._api_key())
        report(f"asking {url} who is there")
        identity = await _observe(self.identity(), upstream)
        serving = Serving(
            upstream,
            identity,
            profile=self.profile,
            device="gpu" if self.settings.gpus else None,
            devices=self.settings.gpus,
        )
        serving.came_up()
        yield serving

    def _api_key(self) -> str | None:
        name = self.settings.api_key_env
        if name and not os.environ.get(name):
            raise UsageError(f"the environment variable {name} (api_key_env) is not set")
        return os.environ.get(name) if name else None


async def _observe(declared: EndpointIdentity, upstream: Upstream) -> EndpointIdentity:
    """What the server itself tells: the model's context and weights, the engine's version."""
    headers = {"Authorization": f"Bearer {upstream.api_key}"} if upstream.api_key else {}
    root = upstream.base_url.removesuffix("/v1")
    async with aiohttp.ClientSession(headers=headers, timeout=_ASK) as client:
        listing = await _get_json(client, f"{upstream.base_url}/models")
        rows = listing.get("data", []) if isinstance(listing, dict) else []
        found = {str(row.get("id")): row for row in rows if isinstance(row, dict)}
        if declared.model not in found:
            served = ", ".join(sorted(found)) or "none"
            raise EndpointError(
                f"{upstream.base_url} does not serve {declared.model!r}; it serves: {served}"
            )
        row = found[declared.model]
        try:
            version = await _get_json(client, f"{root}/version")
        except EndpointError:
            version = {}  # not every server tells its version
    context, weights = row.get("max_model_len"), row.get("root")
    engine = version.get("version") if isinstance(version, dict) else None
    return declared.model_copy(
        update={
            "context_tokens": declared.context_tokens or context,
            "weights": str(weights) if weights else None,
            "engine": f"vllm {engine}" if engine else None,
        }
    )


async def _get_json(client: aiohttp.ClientSession, url: str) -> Any:
    try:
        async with client.get(url) as answer:
            if answer.status != 200:
                raise EndpointError(f"{url} answered HTTP {answer.status}; is the address right?")
            return await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        why = str(error) or type(error).__name__
        raise EndpointError(f"{url} did not answer: {why}; is the engine up?") from error
