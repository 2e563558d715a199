"""What a suite file says about its tasks once they are read: order, pins, sample."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rackbench_tasks.findings import Findings
from rackbench_tasks.keys import did_you_mean
from rackbench_tasks.model import Task
from rackbench_tasks.sources import Origin, SourceKind
from rackbench_tasks.suite_file import Sample, SuiteFile


@dataclass(frozen=True, slots=True)
class Located:
    """A task, and where it came from."""

    task: Task
    origin: Origin

    def __str__(self) -> str:
        is_folder = self.origin.kind is SourceKind.FOLDER
        return str(self.task.folder if is_folder else self.origin)


def select(located: Sequence[Located], written: SuiteFile, findings: Findings) -> list[Located]:
    """Order, check and sample the tasks of a suite file; problems are noted."""
    chosen = _ordered(list(located), written.order, findings)
    if written.digests is not None:
        _check_pins(chosen, written.digests, findings)
    return _sampled(chosen, written.sample, findings)


def unique(located: Iterable[Located], findings: Findings) -> list[Located]:
    """Tasks of several sources; two of one id are a problem that names both."""
    by_id: dict[str, Located] = {}
    for found in located:
        twin = by_id.setdefault(found.task.id, found)
        if twin is found:
            continue
        if twin.task.folder == found.task.folder:
            findings.problem(f"{found} is taken twice; name it in one source alone")
        else:
            findings.problem(
                f"two tasks have the id {found.task.id!r}: {twin} and {found}; "
                "exclude one, or give it a [task] name of its own"
            )
    return list(by_id.values())


def _by_name(located: Iterable[Located]) -> dict[str, Located]:
    return {name: found for found in located for name in (found.task.name, found.task.id)}


def _ordered(located: list[Located], order: Sequence[str], findings: Findings) -> list[Located]:
    """Tasks as named first, the others behind in the order of their sources."""
    named = _by_name(located)
    first: dict[str, Located] = {}
    for name in order:
        found = named.get(name)
        if found is None:
            findings.problem(f"order names {name!r}, which is no task; {did_you_mean(name, named)}")
        elif found.task.id in first:
            findings.problem(f"order names {name!r}, which has its place already")
        else:
            first[found.task.id] = found
    return [*first.values(), *(found for found in located if found.task.id not in first)]


def _check_pins(located: list[Located], pins: Mapping[str, str], findings: Findings) -> None:
    named = _by_name(located)
    for name, pin in pins.items():
        found = named.get(name)
        if found is None:
            findings.problem(
                f"digests names {name!r}, which is no task; {did_you_mean(name, named)}",
                key=f"digests.{name}",
            )
        elif found.task.digest != pin:
            findings.problem(
                f"task {name!r} has changed: its digest is {found.task.digest}, and {pin} is "
                f"pinned ({found})",
                key=f"digests.{name}",
            )
    for found in located:
        if not {found.task.name, found.task.id} & set(pins):
            findings.problem(
                f"task {found.task.id!r} has no pin in digests: {found.task.digest}", key="digests"
            )


def _sampled(located: list[Located], sample: Sample | None, findings: Findings) -> list[Located]:
    if sample is None:
        return located
    if sample.count > len(located):
        findings.problem(f"sample wants {sample.count} tasks, and there are {len(located)}")

    def lot(found: Located) -> bytes:
        # Of seed and id alone: neither the order of sources nor Python's version moves it.
        return hashlib.sha256(f"{sample.seed}:{found.task.id}".encode()).digest()

    chosen = {found.task.id for found in sorted(located, key=lot)[: sample.count]}
    return [found for found in located if found.task.id in chosen]
