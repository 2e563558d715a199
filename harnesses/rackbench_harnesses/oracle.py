"""The agent that knows the answer: runs the task's own reference solution."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar

from rackbench_harnesses.ports import Command, Finish, HarnessExit, HarnessSetupError, Session
from rackbench_harnesses.settings import Settings, read_settings
from rackbench_results.records import Step, ToolCall

_FOLDER = "/solution"
_OUTPUT = "/tmp/rackbench-solution.log"  # noqa: S108  # inside the sandbox
_SHOWN_BYTES = 20_000


class Oracle:
    """Copies the reference solution into the sandbox and runs it; it is gone before the tests."""

    name: ClassVar[str] = "oracle"
    version: ClassVar[str] = "1"
    needs_model: ClassVar[bool] = False
    needs_solution: ClassVar[bool] = True

    def __init__(self, settings: Mapping[str, object]) -> None:
        read_settings(Settings, settings)

    async def set_up(self, session: Session) -> None:
        """Copy the solution to where its scripts expect it."""
        if session.solution is None:
            message = "the task ships no reference solution (solution/solve.sh)"
            raise HarnessSetupError(message)
        solution = session.solution
        if solution.folder:
            await session.sandbox.upload_folder(solution.folder, _FOLDER)
        if solution.files:
            files = {f"{_FOLDER}/{name}": text for name, text in solution.files.items()}
            await session.sandbox.upload(files, mode=0o755)

    async def run(self, session: Session) -> HarnessExit:
        """Run solve.sh; a service that it leaves behind keeps running, its output goes to a file."""
        began = datetime.now(UTC)
        assert session.solution
        name = session.solution.script
        solve = f"bash {_FOLDER}/{shlex.quote(name)}"
        script = "; ".join(
            [
                f"{solve} >{_OUTPUT} 2>&1",
                "code=$?",
                f"head -c {_SHOWN_BYTES} {_OUTPUT}",
                f"rm -f {_OUTPUT}",
                "exit $code",
            ]
        )
        done = await session.sandbox.run(Command(["sh", "-c", script], env=session.solution.env))
        session.recorder.step(
            Step(
                number=1,
                at=began,
                message="The reference solution.",
                tool_calls=(
                    ToolCall(
                        call_id="solve",
                        name="bash",
                        arguments={"command": solve},
                        observation=done.text,
                        extra={"exit_code": done.exit_code},
                    ),
                ),
            )
        )
        if done.exit_code:
            return HarnessExit(Finish.ERROR, f"{name} ended with exit code {done.exit_code}")
        return HarnessExit(Finish.SUBMITTED)
