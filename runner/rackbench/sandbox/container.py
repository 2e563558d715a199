"""One Docker container as a sandbox: made, used, removed."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import docker
import docker.errors
import requests
from docker.types import LogConfig

from rackbench.sandbox import archive, processes
from rackbench.sandbox.stream import CommandStream, Output
from rackbench_harnesses.ports import Command, CommandResult, SandboxError

T = TypeVar("T")

# What the engine grants by default, less raw packets, device nodes and the audit log.
_CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
]
_KEEP_ALIVE = ["tail", "-f", "/dev/null"]  # which every image with a shell has
_KILL_GRACE_SECONDS = 5.0
# Where the official runner promises them; the agent may write to the first two.
_FOLDERS = {"logs/agent": 0o777, "logs/artifacts": 0o777, "logs/verifier": 0o755}
_GO_MODE_FOLDER = 1 << 31
_TEARDOWN_SECONDS = 60.0
_DEATH_LOOKS = 6
_DEATH_LOOK_SECONDS = 0.05
_ENGINE_THREADS = 128
_TABLE_BYTES = 4_000_000
_REQUEST_SECONDS = 120
_CHUNK_BYTES = 1024 * 1024
_NOT_FOUND = 404
_STAT_HEADER = "X-Docker-Container-Path-Stat"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What a sandbox is made of, and what it may use."""

    image: str
    labels: Mapping[str, str]
    cpus: float
    memory_bytes: int
    processes: int = 512
    network: str = "none"
    user: str = "0"
    """Of commands that name no other."""
    workdir: str | None = None
    """None: the image's own."""
    env: Mapping[str, str] = field(default_factory=dict)
    new_privileges: bool = False
    """True: programs such as sudo may raise privileges."""
    kill_from_inside: bool = False
    """True: end processes through the container alone, as a runner that is not root must."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies at a path of a sandbox, and what its regular files hold."""

    files: Mapping[str, bytes]
    """By name relative to the path."""
    folders: tuple[str, ...]
    others: tuple[str, ...]
    """Links, devices, pipes: left where they are."""
    is_folder: bool


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn whatever the engine's client raises into a SandboxError that says what was tried."""
    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        reason = getattr(error, "explanation", None) or error
        message = f"{doing}: {reason}"
        raise SandboxError(message) from error


class Container:
    """A running container; satisfies the `Sandbox` port.

    Commands are meant to run one after another: at a time limit, or when the caller is
    cancelled, everything that started since the command did is killed.
    """

    def __init__(self, api: docker.APIClient, container_id: str, spec: ContainerSpec) -> None:
        self._api = api
        self._spec = spec
        self._threads = anyio.CapacityLimiter(_ENGINE_THREADS)
        self._processes: processes.Processes
        self._keep: frozenset[int] = frozenset()
        self._has_folders = False
        self._memory_cgroup: Path | None = None
        self.id = container_id

    async def run(self, command: Command) -> CommandResult:
        """Run a program to its end, or to its time limit."""
        since_ticks = processes.now_ticks()
        began = time.monotonic()
        stdout, stderr = Output(command.output_limit_bytes), Output(command.output_limit_bytes)
        with explained(f"running {command.argv[0]!r} in the sandbox"):
            timed_out, stream = True, None
            try:
                with anyio.move_on_after(command.timeout_seconds):
                    exec_id, stream = await self._thread(lambda: self._open(command))
                    await self._thread(
                        partial(stream.converse, command.stdin, stdout, stderr), abandon=True
                    )
                    timed_out = False
            finally:
                if timed_out:  # or cancelled from outside, which comes to the same
                    await self._end(stream, since_ticks)
            if timed_out:
                return self._result(None, stdout, stderr, time.monotonic() - began)
            state = await self._thread(lambda: self._api.exec_inspect(exec_id))
        if state["ExitCode"] in (None, 137):
            await self._must_be_running(command)
        return self._result(state["ExitCode"], stdout, stderr, time.monotonic() - began)

    async def upload(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        """Write files at absolute paths, owned by root, in one go."""
        await self._put(archive.pack_files(files, mode=mode), f"writing {', '.join(files)}")

    async def make_log_folders(self) -> None:
        """Make the folders under /logs that agents are promised, unless an upload has."""
        if not self._has_folders:
            await self._put(archive.END, "making /logs")

    async def upload_folder(self, folder: Path, target: str) -> None:
        """Copy a folder of the host to an absolute path, owned by root."""
        packed = await self._thread(lambda: archive.pack_folder(folder, target))
        await self._put(packed, f"copying {folder} to {target}")

    async def download(self, path: str, *, limit_bytes: int) -> dict[str, bytes]:
        """Regular files below a path by relative name; links and devices are left out."""
        listing = await self.listing(path, limit_bytes=limit_bytes)
        if listing is None:
            message = f"there is no {path} in the sandbox"
            raise SandboxError(message)
        return dict(listing.files)

    async def listing(self, path: str, *, limit_bytes: int) -> Listing | None:
        """What lies below a path, as the engine sees it; None where there is nothing at all."""
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{self.id}/archive"

        def fetch() -> Listing | None:
            # By the SDK's session, not by its method: an answer that is not read to its end must
            # be closed, or the engine keeps the container locked.
            with self._api.get(
                url, params={"path": path}, stream=True, timeout=_REQUEST_SECONDS
            ) as answer:
                if answer.status_code == _NOT_FOUND:
                    return None
                answer.raise_for_status()
                stat = json.loads(base64.b64decode(answer.headers[_STAT_HEADER]))
                chunks = answer.iter_content(_CHUNK_BYTES)
                found = archive.unpack(chunks, limit_bytes=limit_bytes)
            is_folder = bool(stat["mode"] & _GO_MODE_FOLDER)
            return Listing(found.files, tuple(found.folders), tuple(found.others), is_folder)

        with explained(f"looking at {path} in the sandbox"):
            return await self._thread(fetch)

    async def kill_since(self, since_ticks: int) -> int:
        """Kill everything that started since a moment; 0 means everything but the keep-alive."""
        with explained("ending processes in the sandbox"):
            return await self._thread(
                lambda: self._processes.kill_since(since_ticks, keep=self._keep)
            )

    async def count_since(self, since_ticks: int) -> int:
        """How many processes live that started since a moment."""
        with explained("counting processes in the sandbox"):
            return await self._thread(
                lambda: self._processes.count_since(since_ticks, keep=self._keep)
            )

    async def written_bytes(self) -> int:
        """What the container wrote on top of its image."""

        def measure() -> int:
            rows = self._api.containers(all=True, size=True, filters={"id": self.id})
            return int(rows[0].get("SizeRw") or 0) if rows else 0

        with explained("measuring what the sandbox wrote"):
            return await self._thread(measure)

    def oom_kills(self) -> int:
        """How many processes were killed because the sandbox's memory was full."""
        return processes.oom_kills(self._memory_cgroup) if self._memory_cgroup else 0

    async def start(self) -> None:
        """Start the container and take down which processes belong to the keep-alive."""

        def begin() -> None:
            self._api.start(self.id)
            pid = self._api.inspect_container(self.id)["State"]["Pid"]
            if not pid:
                message = f"the container ended at once: {self._spec.image} (its entrypoint?)"
                raise SandboxError(message)
            self._memory_cgroup = processes.cgroup_of(pid, "memory")
            cgroup = processes.cgroup_of(pid, "pids")
            if cgroup and os.geteuid() == 0 and not self._spec.kill_from_inside:
                self._processes = processes.CgroupProcesses(cgroup)
            else:
                self._processes = processes.InsideProcesses(self._run_as_root)
            self._keep = self._processes.pids()

        with explained(f"starting a container of {self._spec.image}"):
            await self._thread(begin)

    @staticmethod
    def _result(
        exit_code: int | None, stdout: Output, stderr: Output, seconds: float
    ) -> CommandResult:
        return CommandResult(
            exit_code=exit_code,
            stdout=bytes(stdout.kept),
            stderr=bytes(stderr.kept),
            stdout_dropped_bytes=stdout.dropped_bytes,
            stderr_dropped_bytes=stderr.dropped_bytes,
            timed_out=exit_code is None,
            seconds=seconds,
        )

    def _open(self, command: Command) -> tuple[str, CommandStream]:
        created = self._api.exec_create(
            self.id,
            list(command.argv),
            stdin=bool(command.stdin),
            environment=dict(command.env),
            user=command.user or self._spec.user,
            workdir=command.cwd or self._spec.workdir,
        )
        raw_socket = self._api.exec_start(created["Id"], socket=True)
        return created["Id"], CommandStream(raw_socket)

    async def _end(self, stream: CommandStream | None, since_ticks: int) -> None:
        """Kill a command's tree; where that fails within the grace, kill the container."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_KILL_GRACE_SECONDS) as grace:
                await self.kill_since(since_ticks)
            if stream:
                stream.hang_up()
            if grace.cancelled_caught:
                await self._thread(lambda: self._api.kill(self.id))
                message = "a command did not end at its time limit; its container was killed"
                raise SandboxError(message)

    async def _must_be_running(self, command: Command) -> None:
        """An exit code of 137, or none, is the command's own only if the container still lives.

        The engine tells a container's death later than the end of the commands in it.
        """
        for _ in range(_DEATH_LOOKS):
            state = await self._thread(lambda: self._api.inspect_container(self.id)["State"])
            if not state["Running"]:
                code = state["ExitCode"]
                message = f"the container died while {command.argv[0]!r} ran: exit {code}"
                raise SandboxError(message)
            await anyio.sleep(_DEATH_LOOK_SECONDS)

    async def _put(self, packed: bytes, doing: str) -> None:
        if not self._has_folders:
            # One call for both: each has a price of its own.
            packed, self._has_folders = archive.folders(_FOLDERS) + packed, True
        with explained(f"{doing} in the sandbox"):
            await self._thread(lambda: self._api.put_archive(self.id, "/", packed))

    def _run_as_root(self, argv: list[str]) -> bytes:
        _, stream = self._open(Command(argv, user="0", cwd="/"))
        output, errors = Output(_TABLE_BYTES), Output(0)
        stream.converse(b"", output, errors)
        return bytes(output.kept)

    async def _thread(self, call: Callable[[], T], *, abandon: bool = False) -> T:
        return await anyio.to_thread.run_sync(
            call, abandon_on_cancel=abandon, limiter=self._threads
        )


@asynccontextmanager
async def container(
    api: docker.APIClient, spec: ContainerSpec, *, on_teardown_error: Callable[[str], None]
) -> AsyncIterator[Container]:
    """A started container, removed by force at the end, whatever happened inside.

    A removal that fails is reported, never raised: it must not hide what came before it.
    Raises SandboxError where the container cannot be made.
    """
    with anyio.CancelScope(shield=True):
        created = await anyio.to_thread.run_sync(lambda: _create(api, spec))
    try:
        sandbox = Container(api, created, spec)
        await sandbox.start()
        yield sandbox
    finally:
        with anyio.CancelScope(shield=True):
            try:
                with anyio.fail_after(_TEARDOWN_SECONDS), explained("removing the sandbox"):
                    await anyio.to_thread.run_sync(
                        lambda: remove(api, created), abandon_on_cancel=True
                    )
            except (SandboxError, TimeoutError) as error:
                on_teardown_error(str(error) or "removing the sandbox took too long")


def remove(api: docker.APIClient, container_id: str) -> None:
    """Remove a container by force: stopping it first would wait out its grace for nothing."""
    try:
        api.remove_container(container_id, v=True, force=True)
    except docker.errors.NotFound:
        return
    except docker.errors.APIError as error:
        if error.status_code != 409:  # somebody else is removing it
            raise


def _create(api: docker.APIClient, spec: ContainerSpec) -> str:
    limits: dict[str, Any] = {
        "nano_cpus": int(spec.cpus * 1e9),
        "mem_limit": spec.memory_bytes,
        "memswap_limit": spec.memory_bytes,  # no swap: a limit that swaps measures the disk
        "pids_limit": spec.processes,
    }
    host_config = api.create_host_config(
        init=True,
        network_mode=spec.network,
        cap_drop=["ALL"],
        cap_add=_CAPABILITIES,
        security_opt=[] if spec.new_privileges else ["no-new-privileges"],
        log_config=LogConfig(type=LogConfig.types.NONE),
        **limits,
    )
    with explained(f"creating a container of {spec.image}"):
        created = api.create_container(
            spec.image,
            command=_KEEP_ALIVE,
            environment=dict(spec.env),
            labels=dict(spec.labels),
            # The engine takes all capabilities from the root of a container that another user began.
            user="0",
            working_dir=spec.workdir,
            host_config=host_config,
        )
    return str(created["Id"])
