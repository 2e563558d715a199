"""Agents that cheat: each tries one way to a reward without doing the task."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from rackbench_harnesses.ports import Command, Finish, HarnessExit, Session
from rackbench_harnesses.settings import Settings, read_settings

_SCRIPTS = Path(__file__).with_name("forgeries")
_SECONDS = 30.0


class Forgery(StrEnum):
    """A way to cheat; each is a script in `forgeries/`."""

    REWARD = "reward-written-before"
    BACKGROUND = "background-writer"
    RESULTS = "results-rewritten"
    LINK = "linked-folder"
    TESTS = "tests-written-before"
    PLANTED = "planted-in-workdir"
    SYSTEM = "planted-in-system"
    PROGRAMS = "replaced-programs"
    LATE = "late-writer"


NEEDS_SHARED = frozenset({Forgery.SYSTEM, Forgery.PROGRAMS, Forgery.LATE})
"""What no tests can defend themselves against in the container of an agent that is root."""


class ForgerSettings(Settings):
    """Which way."""

    forgery: Forgery


class Forger:
    """Runs one script of a cheat as the agent."""

    name: ClassVar[str] = "forger"
    version: ClassVar[str] = "1"
    needs_model: ClassVar[bool] = False
    needs_solution: ClassVar[bool] = False

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._forgery = read_settings(ForgerSettings, settings).forgery

    async def set_up(self, session: Session) -> None:
        """Nothing to make ready."""

    async def run(self, session: Session) -> HarnessExit:
        """Cheat; what the agent's user may not do fails, and the rest goes on."""
        script = (_SCRIPTS / f"{self._forgery}.sh").read_text()
        done = await session.sandbox.run(
            Command(["sh", "-c", script], timeout_seconds=_SECONDS, output_limit_bytes=10_000)
        )
        session.recorder.event("forgery", f"{self._forgery}: exit {done.exit_code}")
        return HarnessExit(Finish.SUBMITTED)
