"""Plug-ins by name: entry points, the built-ins too, or `module:Class` for experiments."""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import entry_points
from typing import Any

_KINDS = {
    "rackbench.harnesses": "harness",
    "rackbench.sandboxes": "sandbox",
    "rackbench.endpoints": "endpoint kind",
    "rackbench.task_formats": "task format",
    "rackbench.exporters": "exporter",
}


class PluginError(LookupError):
    """A plug-in that cannot be found or loaded; the message says what is there."""


def names(group: str) -> list[str]:
    """What is installed in a group of entry points, sorted."""
    return sorted({point.name for point in entry_points(group=group)})


def load(group: str, name: str) -> Any:
    """The object that a plug-in's name stands for.

    Raises PluginError: unknown (with «did you mean»), offered twice, or failing to import.
    """
    if ":" in name:
        return _import(name)
    points = [point for point in entry_points(group=group) if point.name == name]
    targets = {point.value for point in points}
    if len(targets) > 1:
        offers = " and ".join(
            sorted(f"{p.dist.name if p.dist else '?'} ({p.value})" for p in points)
        )
        message = f"{name!r} is offered twice, by {offers}; uninstall one, or name module:Class"
        raise PluginError(message)
    if not points:
        known = names(group)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        kind = _KINDS.get(group, "plug-in")
        message = f"unknown {kind} {name!r}{hint} (installed: {', '.join(known) or 'none'})"
        raise PluginError(message)
    return _import(points[0].value)


def _import(target: str) -> Any:
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        message = f"{target!r} could not be loaded: {error}"
        raise PluginError(message) from error
