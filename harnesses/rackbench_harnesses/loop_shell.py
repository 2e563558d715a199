"""The loop's bash tool: a command in, an observation of bounded size out."""

from __future__ import annotations

from dataclasses import dataclass, field

from rackbench_harnesses.ports import Command, CommandResult, Sandbox

_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "DEBIAN_FRONTEND": "noninteractive"}
_KEPT_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Observation:
    """What the model sees of an action, and the facts beside it."""

    text: str
    facts: dict[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands in a sandbox for a model to look at."""

    sandbox: Sandbox
    interpreter: str
    command_seconds: float
    observation_bytes: int

    async def run(self, command: str, *, name: str) -> Observation:
        """Run a command; what does not fit is put into a file in the sandbox, and said so."""
        result = await self.sandbox.run(
            Command(
                # Both outputs in one, in the order in which they were written.
                ["sh", "-c", 'exec "$0" -c "$1" 2>&1', self.interpreter, command],
                env=_QUIET,
                timeout_seconds=self.command_seconds,
                output_limit_bytes=_KEPT_BYTES,
            )
        )
        shown = await self._shorten(result, name)
        if result.timed_out:
            shown += f"\n[killed after {self.command_seconds:g} s, with everything it started]"
        else:
            shown += f"\n[exit code {result.exit_code}]"
        return Observation(
            shown.lstrip("\n"),
            {
                "exit_code": result.exit_code,
                "seconds": round(result.seconds, 3),
                "output_bytes": len(result.stdout) + result.stdout_dropped_bytes,
            },
        )

    async def _shorten(self, result: CommandResult, name: str) -> str:
        output = result.stdout
        if len(output) <= self.observation_bytes:
            return output.decode(errors="replace").rstrip("\n")
        path = f"/tmp/{name}-output.txt"  # noqa: S108  # inside the sandbox
        await self.sandbox.upload({path: output})
        half = self.observation_bytes // 2
        head = output[:half].decode(errors="replace")
        tail = output[-half:].decode(errors="replace")
        lost = result.stdout_dropped_bytes
        rest = f"{len(output) - 2 * half:,} bytes left out; the output is in {path}" + (
            f", less {lost:,} bytes at its end that were too much to keep" if lost else ""
        )
        return f"{head}\n[… {rest} …]\n{tail}".rstrip("\n")


async def find_shell(sandbox: Sandbox) -> str:
    """`bash`, or `sh` in an image that has none."""
    found = await sandbox.run(Command(["sh", "-c", "command -v bash || command -v sh"]))
    return found.text.strip() or "sh"
