"""The endpoint that answers from a file, over real HTTP: for tests and demonstrations."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rackbench.endpoint.profile import load_profile
from rackbench.endpoint.serving import Place, Report, Serving
from rackbench.endpoint.settings import EndpointSettings
from rackbench.errors import UsageError
from rackbench.gateway import Upstream
from rackbench_harnesses.testing import ScriptError, load_script, serve_script
from rackbench_results.records import EndpointIdentity


class ScriptedSettings(EndpointSettings):
    """Answers from a file."""

    script: Path
    """Relative to the run file."""


class Scripted:
    """The endpoint kind `scripted`."""

    Settings = ScriptedSettings
    needs_preflight = False

    def __init__(self, settings: EndpointSettings, *, beside: Path) -> None:
        assert isinstance(settings, ScriptedSettings)
        self.settings: EndpointSettings = settings
        self.path = beside / settings.script
        self.profile = load_profile(settings.profile, beside=beside)
        try:
            self.script = load_script(self.path)
        except (ScriptError, OSError) as error:
            raise UsageError(f"script {self.path}: {error}") from error

    def identity(self) -> EndpointIdentity:
        """The script is the weights."""
        return EndpointIdentity(
            kind="scripted",
            model=self.script.model,
            weights="sha256:" + hashlib.sha256(self.path.read_bytes()).hexdigest(),
            profile=self.profile.digest,
            context_tokens=self.script.context_tokens,
        )

    @asynccontextmanager
    async def serve(self, place: Place, report: Report) -> AsyncIterator[Serving]:
        """Serve the script on a port of its own."""
        async with serve_script(self.script) as server:
            report(f"answering from {self.path} at {server.base_url}")
            serving = Serving(
                Upstream(server.base_url, None), self.identity(), profile=self.profile
            )
            serving.came_up()
            yield serving
