"""What can go wrong in the application, and the exit code that says so."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    VOIDS = 1
    """Finished, with more voids than the run allows."""
    USAGE = 2
    PREREQUISITE = 3
    LIMIT = 4
    """Stopped by a limit of the run."""
    INTERRUPTED = 130


class RackbenchError(Exception):
    """Root of the errors that a user can mend; shown as one clear line, never as a traceback."""

    exit_code = Exit.USAGE


class UsageError(RackbenchError, ValueError):
    """Something that was asked for makes no sense."""


class PrerequisiteError(RackbenchError, RuntimeError):
    """Something that must be there is not; the message names what mends it."""

    exit_code = Exit.PREREQUISITE


class EndpointError(RackbenchError, RuntimeError):
    """An endpoint could not be started, proved or kept."""

    exit_code = Exit.PREREQUISITE
