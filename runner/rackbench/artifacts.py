"""What an agent made: taken out of its sandbox, kept, and handed to a separate verifier."""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from rackbench.sandbox import archive as archives
from rackbench.sandbox.container import Container
from rackbench.sandbox.repack import Bounds, Taken, Wanted, repack
from rackbench_harnesses.ports import SandboxError
from rackbench_tasks import Artifact

PUBLISHED = Artifact("/logs/artifacts")
"""What an agent puts there is an artifact of every task."""
_ENTRIES = 100_000
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One artifact, as it was found; a line of the manifest."""

    source: str
    service: str
    state: str
    """`taken`, `missing`, or why it was refused."""
    entries: int = 0
    size_bytes: int = 0
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class Artifacts:
    """Everything taken of one stage, as one archive of absolute paths."""

    archive: IO[bytes]
    rows: list[Row] = field(default_factory=list)
    taken: list[Artifact] = field(default_factory=list)

    @property
    def places(self) -> tuple[str, ...]:
        """Every path that was asked for: what lies there elsewhere is not the agent's."""
        return tuple(row.source for row in self.rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know."""
        return tuple(
            f"artifact {row.source}: {row.state}" for row in self.rows if row.state != "taken"
        )


async def collect(
    artifacts: Sequence[Artifact],
    service_of: Callable[[str | None], Container],
    *,
    owner: tuple[int, int],
    limit_bytes: int,
) -> Artifacts:
    """Take artifacts out of the agent's containers; what is missing or too large is noted.

    Raises SandboxError where a container itself does not answer.
    """
    whole = Artifacts(tempfile.TemporaryFile())  # noqa: SIM115  # the caller closes it
    for artifact in artifacts:
        wanted = Wanted(artifact.source, artifact.exclude, owner)
        bounds = Bounds(limit_bytes - whole.archive.tell(), _ENTRIES)

        def read(
            chunks: Iterator[bytes], _: bool, wanted: Wanted = wanted, bounds: Bounds = bounds
        ) -> Taken | str:
            try:
                return _append(chunks, whole.archive, wanted, bounds)
            except SandboxError as error:
                return str(error)

        found = await service_of(artifact.service).read_archive(artifact.source, read)
        whole.rows.append(_row(artifact, found))
        if isinstance(found, Taken):
            whole.taken.append(artifact)
    whole.archive.write(archives.END)
    return whole


def keep(artifacts: Artifacts, folder: Path) -> None:
    """Write the files for people, below their paths or destinations, with a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(row) for row in artifacts.rows]
    (folder / _MANIFEST).write_text(json.dumps(rows, indent=1))
    destinations = {
        artifact.source.strip("/"): (artifact.destination or artifact.source).strip("/")
        for artifact in artifacts.taken
    }
    artifacts.archive.seek(0)
    with tarfile.open(fileobj=artifacts.archive) as archive:
        for entry in archive:
            if not entry.isreg():
                continue
            target = folder / _destination(entry.name, destinations)
            target.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(entry)
            assert content is not None
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)


async def restore(artifacts: Artifacts, verifier: Container) -> None:
    """Put artifacts into a verifier's container, at the paths where the agent had them."""
    if artifacts.taken:
        artifacts.archive.seek(0)
        await verifier.write_archive(artifacts.archive)


def _append(chunks: Iterator[bytes], whole: IO[bytes], wanted: Wanted, bounds: Bounds) -> Taken:
    """Add one path's files to an archive without an end, all or none."""
    with tempfile.TemporaryFile() as piece:
        archive = tarfile.open(fileobj=piece, mode="w", format=tarfile.GNU_FORMAT)  # noqa: SIM115
        taken = repack(chunks, archive, wanted, bounds)
        piece.truncate(archive.offset)
        piece.seek(0)
        shutil.copyfileobj(piece, whole)
    return taken


def _row(artifact: Artifact, found: Taken | str | None) -> Row:
    service = artifact.service or "main"
    if found is None:
        return Row(artifact.source, service, "missing")
    if isinstance(found, str):
        return Row(artifact.source, service, f"refused: {found}")
    return Row(
        artifact.source,
        service,
        "taken",
        found.entries,
        found.size_bytes,
        tuple(found.left_out[:100]),
    )


def _destination(name: str, destinations: Mapping[str, str]) -> str:
    for source, destination in destinations.items():
        if name == source or name.startswith(f"{source}/"):
            name = destination + name.removeprefix(source)
            break
    return "/".join(part for part in name.split("/") if part not in ("", ".", ".."))
