"""The agent that does nothing: what it solves is broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rackbench_harnesses.ports import Finish, HarnessExit, Session
from rackbench_harnesses.settings import Settings, read_settings


class Nop:
    """Ends at once, without touching the sandbox."""

    name: ClassVar[str] = "nop"
    version: ClassVar[str] = "1"
    needs_model: ClassVar[bool] = False
    needs_solution: ClassVar[bool] = False

    def __init__(self, settings: Mapping[str, object]) -> None:
        read_settings(Settings, settings)

    async def set_up(self, session: Session) -> None:
        """Nothing to make ready."""

    async def run(self, session: Session) -> HarnessExit:
        """Do nothing."""
        session.recorder.event("nop", "did nothing, as it should")
        return HarnessExit(Finish.SUBMITTED)
