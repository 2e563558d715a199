"""One Docker container as a sandbox: made, used, removed."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

import anyio
import anyio.to_thread
import docker

from rackbench.sandbox import archive, processes
from rackbench.sandbox.creation import ContainerSpec, create
from rackbench.sandbox.engine import explained, remove
from rackbench.sandbox.stream import CommandStream, Output
from rackbench_harnesses.ports import Command, CommandResult, SandboxError

T = TypeVar("T")

_KILL_GRACE_SECONDS = 5.0
# Where the official runner promises them; the agent may write to the first two.
_FOLDERS = {"logs/agent": 0o777, "logs/artifacts": 0o777, "logs/verifier": 0o755}
_GO_MODE_FOLDER = 1 << 31
_TEARDOWN_SECONDS = 60.0
_DEATH_LOOKS = 6
_KEEP_LOOKS = 500
_KEEP_LOOK_SECONDS = 0.004
_DEATH_LOOK_SECONDS = 0.05
_ENGINE_THREADS = 128
_TABLE_BYTES = 4_000_000
_REQUEST_SECONDS = 120
_CHUNK_BYTES = 1024 * 1024
_NOT_FOUND = 404
_STAT_HEADER = "X-Docker-Container-Path-Stat"


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies at a path of a sandbox, and what its regular files hold."""

    files: Mapping[str, bytes]
    """By name relative to the path."""
    folders: tuple[str, ...]
    others: tuple[str, ...]
    """Links, devices, pipes: left where they are."""
    is_folder: bool


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
        self.pid = 0
        """Of its first process, as the host counts."""
        self.networks = {spec.network}
        """Of the engine, that it is connected to."""
        self.user = spec.user
        """Of commands that name no other."""
        self.phase_env: Mapping[str, str] = {}
        """Variables of every command of the present phase."""

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

        def read(chunks: Iterator[bytes], is_folder: bool) -> Listing:
            found = archive.unpack(chunks, limit_bytes=limit_bytes)
            return Listing(found.files, tuple(found.folders), tuple(found.others), is_folder)

        return await self.read_archive(path, read)

    async def read_archive(self, path: str, read: Callable[[Iterator[bytes], bool], T]) -> T | None:
        """Hand the archive of a path to a reader, in pieces, and whether it is a folder.

        None where there is nothing at that path. A link is taken as what it is.
        """
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{self.id}/archive"

        def fetch() -> T | None:
            # By the SDK's session, not by its method: an answer that is not read to its end must
            # be closed, or the engine keeps the container locked.
            with self._api.get(
                url, params={"path": path}, stream=True, timeout=_REQUEST_SECONDS
            ) as answer:
                if answer.status_code == _NOT_FOUND:
                    return None
                answer.raise_for_status()
                stat = json.loads(base64.b64decode(answer.headers[_STAT_HEADER]))
                is_folder = bool(stat["mode"] & _GO_MODE_FOLDER)
                return read(answer.iter_content(_CHUNK_BYTES), is_folder)

        with explained(f"looking at {path} in the sandbox"):
            return await self._thread(fetch)

    async def write_archive(self, content: IO[bytes]) -> None:
        """Unpack an archive of absolute paths, owners and modes as it says."""
        with explained("restoring files in the sandbox"):
            await self._thread(lambda: self._api.put_archive(self.id, "/", content))

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
        with explained(f"starting a container of {self._spec.image}"):
            await self._thread(lambda: self._api.start(self.id))
        await self.attach()

    async def attach(self) -> None:
        """Take down where a started container runs, and which processes it has by itself."""

        def look() -> None:
            self.pid = int(self._api.inspect_container(self.id)["State"]["Pid"])
            if not self.pid:
                message = f"the container ended at once: {self._spec.image} (its entrypoint?)"
                raise SandboxError(message)
            self._memory_cgroup = processes.cgroup_of(self.pid, "memory")
            cgroup = processes.cgroup_of(self.pid, "pids")
            if cgroup and os.geteuid() == 0 and not self._spec.kill_from_inside:
                self._processes = processes.CgroupProcesses(cgroup)
            else:
                self._processes = processes.InsideProcesses(self._run_as_root)
            self._keep = self._kept()

        with explained(f"looking at a container of {self._spec.image}"):
            await self._thread(look)

    def _kept(self) -> frozenset[int]:
        """The container's own processes, once its init has begun what it is to look after.

        Taken too early, the keep-alive would count as the agent's, and be killed with it.
        """
        for _ in range(_KEEP_LOOKS):
            found = self._processes.pids()
            if len(found) > 1:
                return found
            time.sleep(_KEEP_LOOK_SECONDS)
        return found

    async def join(self, network: str) -> None:
        """Connect to a network of the engine."""
        with explained(f"connecting the sandbox to the network {network}"):
            await self._thread(lambda: self._api.connect_container_to_network(self.id, network))
        self.networks.add(network)

    async def leave(self, network: str) -> None:
        """Disconnect from a network of the engine; connections break."""
        with explained(f"disconnecting the sandbox from the network {network}"):
            await self._thread(
                lambda: self._api.disconnect_container_from_network(self.id, network, force=True)
            )
        self.networks.discard(network)

    async def pause(self) -> None:
        """Freeze every process."""
        with explained("pausing the sandbox"):
            await self._thread(lambda: self._api.pause(self.id))

    async def unpause(self) -> None:
        """Let every process go on."""
        with explained("going on with the sandbox"):
            await self._thread(lambda: self._api.unpause(self.id))

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
            environment={**self.phase_env, **command.env},
            user=command.user or self.user,
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
        created = await anyio.to_thread.run_sync(lambda: create(api, spec))
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
