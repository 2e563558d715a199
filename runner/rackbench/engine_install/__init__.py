"""The engine in an environment of its own, with the small model that proves the path."""

from rackbench.engine_install.installation import Installation, default_home, find, install

__all__ = ["Installation", "default_home", "find", "install"]
