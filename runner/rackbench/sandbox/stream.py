"""A running command's stream: bytes in, two bounded streams out."""

from __future__ import annotations

import contextlib
import io
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any

_HEADER = struct.Struct(">BxxxL")
_CHUNK_BYTES = 65_536


@dataclass(slots=True)
class Output:
    """One stream, kept up to a limit and counted beyond it."""

    limit_bytes: int
    kept: bytearray = field(default_factory=bytearray)
    dropped_bytes: int = 0

    def add(self, piece: bytes) -> None:
        """Take what still fits."""
        room = max(0, self.limit_bytes - len(self.kept))
        self.kept += piece[:room]
        self.dropped_bytes += max(0, len(piece) - room)


class CommandStream:
    """The two-way connection of one exec; read in a worker thread, closed from anywhere."""

    def __init__(self, raw_socket: Any) -> None:
        # The SDK hands out the socket below the buffered reader that has read the HTTP headers:
        # output that came with the headers would be lost there, so the reader is taken instead.
        self._raw = raw_socket
        self._response = raw_socket._response  # noqa: SLF001
        self._reader: io.BufferedReader = self._response.raw._fp.fp  # noqa: SLF001
        self._socket: socket.socket = raw_socket._sock  # noqa: SLF001
        self._socket.settimeout(None)

    def converse(self, stdin: bytes, stdout: Output, stderr: Output) -> None:
        """Feed stdin and collect both outputs until the engine closes the stream."""
        feeder = None
        if stdin:
            feeder = threading.Thread(target=self._feed, args=(stdin,), daemon=True)
            feeder.start()
        try:
            self._collect(stdout, stderr)
        finally:
            self.hang_up()
            if feeder:
                feeder.join()
            self.release()

    def hang_up(self) -> None:
        """End the conversation; a reader in another thread comes back at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Give the connection back to the system; nobody may be reading."""
        self._response.close()
        self._raw.close()
        self._socket.close()

    def _feed(self, stdin: bytes) -> None:
        # A command may end without reading its input.
        with contextlib.suppress(OSError):
            self._socket.sendall(stdin)
            self._socket.shutdown(socket.SHUT_WR)

    def _collect(self, stdout: Output, stderr: Output) -> None:
        while len(header := self._reader.read(_HEADER.size)) == _HEADER.size:
            channel, left = _HEADER.unpack(header)
            output = stderr if channel == 2 else stdout
            while left:
                piece = self._reader.read1(min(left, _CHUNK_BYTES))
                if not piece:
                    return
                output.add(piece)
                left -= len(piece)
