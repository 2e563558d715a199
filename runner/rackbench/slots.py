"""Admission: so many attempts at once, and no more memory than there is. First come, first served."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class Slots:
    """Places for attempts, with a share of the machine's memory each."""

    def __init__(self, places: int, memory_bytes: int) -> None:
        self._places = places
        self._memory_bytes = memory_bytes
        self._waiting: deque[tuple[int, anyio.Event]] = deque()

    @asynccontextmanager
    async def take(self, memory_bytes: int) -> AsyncIterator[None]:
        """Wait for a place and the memory; a large attempt is not overtaken by small ones."""
        admitted = anyio.Event()
        self._waiting.append((memory_bytes, admitted))
        self._admit()
        try:
            await admitted.wait()
            yield
        finally:
            if admitted.is_set():
                self._places += 1
                self._memory_bytes += memory_bytes
            else:
                self._waiting.remove((memory_bytes, admitted))
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._places and self._waiting[0][0] <= self._memory_bytes:
            memory_bytes, admitted = self._waiting.popleft()
            self._places -= 1
            self._memory_bytes -= memory_bytes
            admitted.set()
