"""Server-sent events, split out of a stream that comes in arbitrary pieces."""

from __future__ import annotations

_EVENT_BYTES = 8 * 1024 * 1024


class SseEvents:
    """Splits a stream into the data of its events, in bounded memory.

    Line ends, comments, fields and multi-line data as in the HTML standard, section 9.2.6. An
    event with a line, or with data, of more than `limit_bytes` is passed over, and counted.
    """

    def __init__(self, *, limit_bytes: int = _EVENT_BYTES) -> None:
        self.oversized = 0
        self._limit_bytes = limit_bytes
        self._line = bytearray()
        """The beginning of a line whose end has not come yet."""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_oversized = False
        self._after_cr = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that this piece completed."""
        if not piece:
            return []
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        events: list[bytes] = []
        for line in piece.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            is_whole = len(content) < len(line)
            if self._line or not is_whole:
                self._line += content[: self._limit_bytes + 1 - len(self._line)]
                content = bytes(self._line) if is_whole else b""
            if is_whole:
                self._line.clear()
                self._take(content, events)
        return events

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if not line:
            if self._is_oversized:
                self.oversized += 1
            elif self._data:
                events.append(b"\n".join(self._data))
            self._data.clear()
            self._data_bytes = 0
            self._is_oversized = False
        elif len(line) > self._limit_bytes:
            self._is_oversized = True
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            self._data_bytes += len(value) + 1
            if self._data_bytes > self._limit_bytes:
                self._is_oversized = True
                self._data.clear()
            else:
                self._data.append(value)
