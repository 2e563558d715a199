"""Writes the skeleton of a task, which works as it is."""

from rackbench.new_task.skeleton_folder import (
    DEFAULT_BASE,
    Language,
    Network,
    Skeleton,
    Verifier,
    write_skeleton,
)

__all__ = ["DEFAULT_BASE", "Language", "Network", "Skeleton", "Verifier", "write_skeleton"]
