"""The reference, watched: what it could see before it began, and what it changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rackbench_harnesses.oracle import Oracle
from rackbench_harnesses.ports import Command, HarnessExit, Sandbox, SandboxError, Session

_MARK = "/.rackbench-before"
_NOT_ITS_WORK = (
    "/proc", "/sys", "/dev", "/run", "/solution", "/tests", "/oracle", "/logs", "/tmp",  # noqa: S108  # inside the sandbox
)  # fmt: skip
_DERIVED = ("__pycache__", ".git", ".pytest_cache")
_FILES = 200
_FILE_BYTES = 2_000_000
_SECONDS = 60.0


@dataclass(slots=True)
class WatchedOracle:
    """Runs the reference as `oracle` does; keeps what it changed in memory."""

    name: ClassVar[str] = "oracle"
    version: ClassVar[str] = "1"
    needs_model: ClassVar[bool] = False
    needs_solution: ClassVar[bool] = True

    changed: dict[str, bytes] = field(default_factory=dict)
    """By path, of all stages."""
    left_out: list[str] = field(default_factory=list)
    """Changed too, and too large or too many to keep."""
    visible: list[str] = field(default_factory=list)
    """Of the verifier's files, to the agent, before it began."""
    _oracle: Oracle = field(default_factory=lambda: Oracle({}))

    async def set_up(self, session: Session) -> None:
        """Make ready, and put down the mark that changes are newer than."""
        await self._oracle.set_up(session)
        await session.sandbox.run(Command(["sh", "-c", f": >{_MARK}"], user="0", cwd="/"))

    async def run(self, session: Session) -> HarnessExit:
        """Look, run the reference, look again."""
        self.visible += await _visible(session.sandbox)
        done = await self._oracle.run(session)
        await self._take(session.sandbox)
        return done

    async def _take(self, sandbox: Sandbox) -> None:
        paths = await _changed_paths(sandbox)
        self.left_out += paths[_FILES:]
        for path in paths[:_FILES]:
            try:
                found = await sandbox.download(path, limit_bytes=_FILE_BYTES)
            except SandboxError:
                self.left_out.append(path)
            else:
                self.changed.update((path, content) for content in found.values())


async def _visible(sandbox: Sandbox) -> list[str]:
    script = (
        "find /tests /oracle /logs/verifier -type f 2>/dev/null | head -n 20 | "
        'while read -r path; do [ -r "$path" ] && echo "$path"; done'
    )
    seen = await sandbox.run(Command(["sh", "-c", script], timeout_seconds=_SECONDS))
    return [line for line in seen.text.splitlines() if line.startswith("/")]


async def _changed_paths(sandbox: Sandbox) -> list[str]:
    pruned = [f"-path {path}" for path in _NOT_ITS_WORK] + [f"-name {name}" for name in _DERIVED]
    script = (
        # Copies may carry an old time of change; not every find can tell the other.
        f"newer=-cnewer; find / -maxdepth 0 -cnewer {_MARK} >/dev/null 2>&1 || newer=-newer; "
        f"find / -xdev \\( {' -o '.join(pruned)} \\) -prune -o "
        f"-type f $newer {_MARK} ! -path {_MARK} -print 2>/dev/null | sort"
    )
    seen = await sandbox.run(
        Command(["sh", "-c", script], user="0", cwd="/", timeout_seconds=_SECONDS)
    )
    return [line for line in seen.text.splitlines() if line.startswith("/")]
