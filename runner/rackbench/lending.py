"""Verifier tools, lent to one sandbox for the length of its verifier phase."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from rackbench.verifier_tools import VerifierTools, offer, withdraw


@contextmanager
def counter(tools: VerifierTools | None) -> Iterator[Path | None]:
    """An empty folder that a sandbox mounts read-only; tools are laid into it when they are due."""
    if tools is None:
        yield None
        return
    # Beside the tools: a hard link cannot lead to another file system.
    folder = Path(tempfile.mkdtemp(prefix=".lent-", dir=tools.folder.parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def lent(tools: VerifierTools | None, at: Path | None) -> AsyncIterator[None]:
    """The tools lie at a folder while the tests run, and at no other time."""
    if tools is None or at is None:
        yield
        return
    await anyio.to_thread.run_sync(offer, tools, at)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(withdraw, at)
