"""Where the engine answers, and for how long it was busy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Upstream:
    """An engine's address, which may change when it is started again."""

    def __init__(self, base_url: str, api_key: str | None = None) -> None:
        self.base_url = base_url
        """Ends in /v1."""
        self.api_key = api_key
        self._in_flight = 0
        self._busy_since = 0.0
        self._busy_seconds = 0.0

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """One call is with the engine until the context ends."""
        if self._in_flight == 0:
            self._busy_since = time.monotonic()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            if self._in_flight == 0:
                self._busy_seconds += time.monotonic() - self._busy_since

    def busy_seconds(self) -> float:
        """Time with at least one call in flight, up to now."""
        running = time.monotonic() - self._busy_since if self._in_flight else 0.0
        return self._busy_seconds + running
