"""Task formats: each reads folders written its way into the same `Task`."""

from rackbench_tasks.formats.port import TaskFormat, installed_formats

__all__ = ["TaskFormat", "installed_formats"]
