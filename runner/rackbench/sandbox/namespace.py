"""Listening inside the network of a container, from outside of it."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from ipaddress import ip_address
from pathlib import Path

from rackbench_harnesses.ports import SandboxError

_CLONE_NEWNET = 0x40000000
_BACKLOG = 128


def listen_inside(pid: int, port: int, *, host: str = "127.0.0.1") -> socket.socket:
    """A socket that listens in the network of another process; for root only.

    `host` is an address; port 0 lets the kernel choose. The socket accepts, and is closed, like any
    other of this process: what runs in the container sees an address of its own. After a restart
    of the container it must be made anew. Raises SandboxError.
    """
    doing = f"listening on {host}:{port} inside the network of process {pid}"
    if os.geteuid() != 0:
        raise SandboxError(f"{doing}: only root may enter it; run rackbench as root")
    made: list[socket.socket | OSError] = []
    # The network is a property of the thread; this one ends with it.
    visitor = threading.Thread(target=lambda: made.append(_listen(pid, port, host)))
    visitor.start()
    visitor.join()
    if isinstance(made[0], OSError):
        raise SandboxError(f"{doing}: {made[0]}; does the container still run?") from made[0]
    return made[0]


def _listen(pid: int, port: int, host: str) -> socket.socket | OSError:
    try:
        _enter(pid)
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        return error
    return listener


def _enter(pid: int) -> None:
    theirs = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A number may belong to somebody else by now: the host's own network is never meant.
        if os.path.samestat(os.fstat(theirs), Path("/proc/self/ns/net").stat()):
            raise OSError("the process has no network of its own")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(theirs, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(theirs)
