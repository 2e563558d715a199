"""Fixtures of the whole-program tests."""

from program import nothing_left, program

__all__ = ["nothing_left", "program"]
