"""`calls.jsonl`: one line per finished call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rackbench_results.records import Call


class Journal:
    """An open file that only grows; a line is with the kernel when `add` returns."""

    def __init__(self, descriptor: int) -> None:
        self.error: OSError | None = None
        """The first write that failed; a handler of the gateway has nobody to raise it to."""
        self._descriptor = descriptor

    def add(self, call: Call) -> None:
        """Append one call; nothing more after a failed write, so that only the last line is torn."""
        if self.error:
            return
        rest = memoryview(f"{call.model_dump_json()}\n".encode())
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self.error = error


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Raises the first OSError that writing met, once the context ends without another error."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        journal = Journal(descriptor)
        yield journal
    finally:
        os.close(descriptor)
    if journal.error:
        raise journal.error
