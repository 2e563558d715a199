"""The endpoint that we run: vLLM as a local process in an environment of its own."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import anyio
from pydantic import Field

from rackbench.endpoint.engine_process import (
    Launch,
    engine_process,
    free_port,
    is_free,
)
from rackbench.endpoint.profile import load_profile
from rackbench.endpoint.serving import Place, Report, Serving
from rackbench.endpoint.settings import EndpointSettings
from rackbench.engine_install import Installation, default_home, find
from rackbench.errors import EndpointError, PrerequisiteError, UsageError
from rackbench.gateway import Upstream
from rackbench_results.records import EndpointIdentity

# They say where the engine is, not what it is.
_ADDRESS_ARGUMENTS = ("--port", "--host", "--api-key", "--uds")
_DEVICE_ARGUMENTS = {
    "--tensor-parallel-size": 1,
    "-tp": 1,
    "--pipeline-parallel-size": 1,
    "-pp": 1,
    "--data-parallel-size": 1,
    "-dp": 1,
}


class VllmSettings(EndpointSettings):
    """vLLM on this machine."""

    model: str | None = None
    """Folder of the weights, or an id that the engine finds in its cache; None: the small model
    that comes with `rackbench engine install`."""
    arguments: tuple[str, ...] = ()
    """Of `vllm serve`, after those of the profile."""
    engine: Path | None = None
    """Environment that holds vLLM; None: the one made by `rackbench engine install`."""
    env: dict[str, str] = Field(default_factory=dict)
    """For the engine's process."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """None: any free one."""
    start_seconds: Annotated[float, Field(gt=0)] = 3600
    """Limit of one start, loading included."""
    restarts: Annotated[int, Field(ge=0)] = 2
    """How often a crashed engine is started again."""


@dataclass(frozen=True, slots=True)
class _Engine:
    """The installed engine that is used."""

    vllm: Path
    version: str
    device: Literal["gpu", "cpu"]


class Vllm:
    """The endpoint kind `vllm`."""

    Settings = VllmSettings
    needs_preflight = True

    def __init__(self, settings: EndpointSettings, *, beside: Path) -> None:
        assert isinstance(settings, VllmSettings)
        self.settings = settings
        self.profile = load_profile(settings.profile, beside=beside)
        installed = find(default_home())
        self.engine = _find_engine(settings, installed)
        self.model, self.template = _find_model(settings, installed, beside)
        self.arguments = self._all_arguments()
        self.served_name = self.profile.served_name or self.model
        if settings.port and not is_free(settings.port):
            raise UsageError(
                f"port {settings.port} is in use on this machine; "
                "leave `port` out to get a free one"
            )

    def identity(self) -> EndpointIdentity:
        """Weights, engine and arguments; the address is not part of it."""
        folder = Path(self.model)
        return EndpointIdentity(
            kind="vllm",
            model=self.served_name,
            weights=_weights_digest(folder) if folder.is_dir() else self.model,
            engine=f"vllm {self.engine.version}",
            serving_arguments=self.arguments,
            chat_template=_template_digest(folder, self.template),
            profile=self.profile.digest,
            context_tokens=_context(self.arguments) or self.profile.context_tokens,
        )

    @asynccontextmanager
    async def serve(self, place: Place, report: Report) -> AsyncIterator[Serving]:
        """Start it, watch it, start it again when it crashes, and stop it whole."""
        serving = Serving(
            Upstream("http://127.0.0.1:9/v1", None),
            self.identity(),
            profile=self.profile,
            device=self.engine.device,
            devices=self._devices(),
        )
        async with anyio.create_task_group() as watch:
            watch.start_soon(self._keep_up, serving, place, report)
            try:
                await serving.wait_ready()
                yield serving
            finally:
                watch.cancel_scope.cancel()

    async def _keep_up(self, serving: Serving, place: Place, report: Report) -> None:
        for start in range(self.settings.restarts + 1):
            began = time.monotonic()
            try:
                async with engine_process(self._launch(place)) as process:
                    await process.ready(limit_seconds=self.settings.start_seconds, report=report)
                    serving.upstream.base_url = f"{process.root_url}/v1"
                    serving.timeline.load_seconds += time.monotonic() - began
                    report(f"up at {process.root_url} after {time.monotonic() - began:.1f} s")
                    serving.came_up()
                    why = await process.ended()
            except EndpointError as error:
                if start == 0:  # what does not start once will not start twice
                    serving.given_up(str(error))
                    return
                why = str(error)
            serving.went_down()
            report(f"crashed: {why}")
        serving.given_up(f"{why}; given up after {self.settings.restarts} restarts")

    def _launch(self, place: Place) -> Launch:
        command = [str(self.engine.vllm), "serve", self.model, *self.arguments]
        command += ["--served-model-name", self.served_name]
        if self.template:
            command += ["--chat-template", str(self.template)]
        place.folder.mkdir(parents=True, exist_ok=True)
        return Launch(
            command=command,
            env={**self.settings.env, **place.labels},
            port=self.settings.port or free_port(),
            log=place.folder / "server.log",
        )

    def _all_arguments(self) -> tuple[str, ...]:
        arguments = [*self.profile.arguments]
        if self.engine.device == "cpu":
            arguments += self.profile.cpu_arguments
        arguments += self.settings.arguments
        for argument in arguments:
            if argument.partition("=")[0] in _ADDRESS_ARGUMENTS:
                raise UsageError(
                    f"{argument} does not belong into `arguments`: the runner chooses the address "
                    "(use `port` to fix it)"
                )
        return tuple(arguments)

    def _devices(self) -> int:
        if self.engine.device == "cpu":
            return len(os.sched_getaffinity(0))
        if self.settings.gpus:
            return self.settings.gpus
        count = 1
        for name, value in _pairs(self.arguments):
            if name in _DEVICE_ARGUMENTS and value.isdigit():
                count *= int(value)
        return count


def _find_engine(settings: VllmSettings, installed: Installation | None) -> _Engine:
    if settings.engine is None:
        if installed is None:
            raise PrerequisiteError(
                "no engine is installed; run `rackbench engine install`, or name the environment "
                "that holds vLLM in `engine`"
            )
        device: Literal["gpu", "cpu"] = "cpu" if "cpu" in installed.version else "gpu"
        return _Engine(installed.vllm, installed.version, device)
    vllm = settings.engine.expanduser() / "bin" / "vllm"
    if not vllm.is_file():
        raise UsageError(f"there is no {vllm}; `engine` names an environment that holds vLLM")
    records = sorted(
        settings.engine.expanduser().glob("lib/python*/site-packages/vllm-*.dist-info")
    )
    version = records[0].name.removeprefix("vllm-").removesuffix(".dist-info") if records else "?"
    return _Engine(vllm, version, "cpu" if "cpu" in version else "gpu")


def _find_model(
    settings: VllmSettings, installed: Installation | None, beside: Path
) -> tuple[str, Path | None]:
    """The weights' folder or id, and the chat template that replaces the model's own."""
    if settings.model is None:
        if installed is None:
            raise PrerequisiteError(
                "no model is named and the small one is not installed; "
                "run `rackbench engine install`, or set `model`"
            )
        return str(installed.model), installed.template
    looks_like_path = settings.model.startswith((".", "/", "~")) or settings.model.count("/") != 1
    folder = (beside / Path(settings.model).expanduser()).resolve()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise UsageError(f"{folder} holds no config.json; is it a folder of weights?")
        return str(folder), None
    if looks_like_path:
        raise UsageError(f"there is no model folder {folder} (`model` of the endpoint)")
    return settings.model, None


def _weights_digest(folder: Path) -> str:
    """Of the configuration and the index; of the weights themselves only names and sizes.

    Terabytes cannot be read at every start; a changed file with an unchanged size stays unseen.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix == ".json":
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        elif path.suffix in (".safetensors", ".bin", ".pt", ".gguf"):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
    return "sha256:" + digest.hexdigest()


def _template_digest(folder: Path, template: Path | None) -> str | None:
    path = template or folder / "chat_template.jinja"
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _context(arguments: tuple[str, ...]) -> int | None:
    values = [value for name, value in _pairs(arguments) if name == "--max-model-len"]
    return int(values[-1]) if values and values[-1].isdigit() else None


def _pairs(arguments: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names and values, whether joined by `=` or one after the other."""
    found = []
    for argument, following in zip(arguments, (*arguments[1:], ""), strict=True):
        name, equals, value = argument.partition("=")
        if name.startswith("-"):
            found.append((name, value if equals else following))
    return found
