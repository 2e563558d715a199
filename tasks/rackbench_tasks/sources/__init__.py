"""Sources of tasks: folders, archives and repositories, made files on this machine."""

from rackbench_tasks.sources.origin import Origin, SourceKind
from rackbench_tasks.sources.places import Places, machine_places, places_of
from rackbench_tasks.sources.resolve import Resolved, resolve_source
from rackbench_tasks.sources.source import Source

__all__ = [
    "Origin",
    "Places",
    "Resolved",
    "Source",
    "SourceKind",
    "machine_places",
    "places_of",
    "resolve_source",
]
