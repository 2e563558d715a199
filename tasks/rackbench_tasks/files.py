"""Files of tasks and suites: where they are, and their text, or the reason why not."""

from __future__ import annotations

import os
from pathlib import Path

from rackbench_tasks.problem import TaskError


def absolute(path: Path) -> Path:
    """A path from the root, without `..`; a link keeps its own name."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # resolve() would follow the link


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with Unix line ends and without a byte order mark.

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
