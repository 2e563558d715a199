"""The run folder: commit marks that are whole or absent, append-only logs, one writer."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TextIO, TypeVar

from pydantic import ValidationError

from rackbench_results.outcomes import Outcome
from rackbench_results.records import Call, Event, Record, Result, Step

R = TypeVar("R", bound=Record)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class StoreError(RuntimeError):
    """A file of a run folder cannot be read or written; the message names it."""


class RunLocked(StoreError):  # noqa: N818
    """Another process works on this run."""


def write_record(path: Path, record: Record) -> None:
    """Write a record whole or not at all: temporary file, fsync, rename, fsync of the folder."""
    _write_whole(path, record.model_dump_json(indent=1))


def write_json(path: Path, value: object) -> None:
    """Write plain data whole or not at all."""
    _write_whole(path, json.dumps(value, indent=1, ensure_ascii=False))


def _write_whole(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_record(path: Path, kind: type[R]) -> R | None:
    """A record, or None where there is no file. Raises StoreError where it is damaged."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise StoreError(f"{path} is no {kind.__name__}: {error.errors()[0]['msg']}") from error


def read_json(path: Path) -> Any:
    """Plain data. Raises StoreError."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


def append_line(file: TextIO, record: Record) -> None:
    """Add a line to an append-only log."""
    file.write(record.model_dump_json() + "\n")
    file.flush()


def read_lines(path: Path, kind: type[R]) -> Iterator[R]:
    """Lines of a log; a torn last one is dropped. Raises StoreError for any other."""
    data = path.read_bytes()
    *lines, _torn = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            yield kind.model_validate_json(line)
        except ValidationError as error:
            raise StoreError(f"{path}, line {number}: {error.errors()[0]['msg']}") from error


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where everything of a run is."""

    path: Path

    @property
    def spec_path(self) -> Path:
        """The run file as asked, overrides included."""
        return self.path / "spec.yaml"

    @property
    def plan_path(self) -> Path:
        """The plan as resolved."""
        return self.path / "plan.json"

    @property
    def environment_path(self) -> Path:
        """The machine it ran on."""
        return self.path / "environment.json"

    @property
    def summary_path(self) -> Path:
        """Derived numbers; can be made again from the rest."""
        return self.path / "summary.json"

    def endpoint_folder(self, name: str) -> Path:
        """What is known of an endpoint."""
        return self.path / "endpoints" / _safe(name)

    def trial_folder(self, task: str, arm: str, index: int) -> Path:
        """Attempts of one trial."""
        return self.path / "trials" / _safe(task) / _safe(arm) / str(index)

    def attempts(self, trial: Path) -> list[Path]:
        """Folders of a trial's attempts, oldest first, abandoned ones included."""
        return sorted(trial.glob("attempt-*"), key=_attempt_number)

    def next_attempt(self, trial: Path) -> Path:
        """Claim the folder of a new attempt."""
        trial.mkdir(parents=True, exist_ok=True)
        before = self.attempts(trial)
        number = _attempt_number(before[-1]) + 1 if before else 1
        folder = trial / f"attempt-{number:02}"
        folder.mkdir()
        return folder

    def results_with_paths(self) -> Iterator[tuple[Path, Result]]:
        """Every committed attempt with its folder, by trial, oldest first."""
        for trial in sorted(self.path.glob("trials/*/*/*")):
            for folder in self.attempts(trial):
                if result := read_record(folder / "result.json", Result):
                    yield folder, result

    def final_results(self) -> list[Result]:
        """One result a trial: the last that says something, else the last there is."""
        return [result for _, result in self.final_results_with_paths()]

    def final_results_with_paths(self) -> list[tuple[Path, Result]]:
        """The same with the folders of the attempts."""
        chosen: dict[Path, tuple[Path, Result]] = {}
        for folder, result in self.results_with_paths():
            before = chosen.get(folder.parent)
            if before is None or not (_says_something(before[1]) and not _says_something(result)):
                chosen[folder.parent] = (folder, result)
        return list(chosen.values())

    def calls_of(self, arm: str) -> list[Call]:
        """Model calls of an arm's final attempts."""
        return [
            call
            for folder, result in self.final_results_with_paths()
            if result.arm == arm and (folder / "calls.jsonl").exists()
            for call in read_lines(folder / "calls.jsonl", Call)
        ]


class AttemptLog:
    """What happens in an attempt, line by line; satisfies a harness's `Recorder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began = time.monotonic()
        self._events: TextIO
        self._steps: TextIO | None = None

    def __enter__(self) -> Self:
        self._events = (self._folder / "events.jsonl").open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._events.close()
        if self._steps:
            self._steps.close()

    def event(self, kind: str, detail: str = "", **extra: str | float | bool | None) -> None:
        """Note something worth a line."""
        append_line(
            self._events,
            Event(
                at=datetime.now(UTC),
                elapsed_seconds=round(time.monotonic() - self._began, 6),
                kind=kind,
                detail=detail,
                extra=dict(extra),
            ),
        )

    def step(self, step: Step) -> None:
        """Add a finished step to the trajectory."""
        if self._steps is None:
            (self._folder / "agent").mkdir(exist_ok=True)
            self._steps = (self._folder / "agent" / "steps.jsonl").open("a", encoding="utf-8")
        append_line(self._steps, step)


@contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Be the only writer of a run; the lock ends with the process, however that ends.

    Raises RunLocked, naming who holds it.
    """
    with (path / "run.lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "an unknown process"
            raise RunLocked(f"{path} is in use by {holder}; wait for it, or stop it") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {os.uname().nodename}")
        file.flush()
        yield


def create_run(results: Path, name: str, now: datetime) -> RunFolder:
    """A new run folder: `20261130T221719Z-name-7f3a`."""
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{_safe(name)}-{secrets.token_hex(2)}"
    path = results.resolve() / run_id
    path.mkdir(parents=True)
    return RunFolder(path)


def _says_something(result: Result) -> bool:
    return result.outcome not in (Outcome.VOID, Outcome.CANCELLED)


def _attempt_number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name.replace("/", "__"))
