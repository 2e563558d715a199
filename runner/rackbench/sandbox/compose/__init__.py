"""Projects of several containers, run by the real `docker compose`."""

from rackbench.sandbox.compose.program import ComposeError, find_program
from rackbench.sandbox.compose.project import ProjectSpec, project
from rackbench.sandbox.compose.resolved import Resolved, resolve

__all__ = ["ComposeError", "ProjectSpec", "Resolved", "find_program", "project", "resolve"]
