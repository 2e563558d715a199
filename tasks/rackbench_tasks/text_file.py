"""Text files of tasks and suites, read as UTF-8 or refused with a reason."""

from __future__ import annotations

from pathlib import Path

from rackbench_tasks.problem import TaskError


def read_text(path: Path) -> str:
    """The text of a file, line ends made `\\n`, without a byte order mark.

    Raises TaskError.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise TaskError(f"there is no {path}") from None
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise TaskError(
            f"{path}: is not UTF-8 (byte 0x{byte:02x} at position {error.start}); convert it"
        ) from error
    return text.replace("\r\n", "\n")
