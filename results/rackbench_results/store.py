"""The run folder: commit marks that are whole or absent, append-only logs, one writer."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from pydantic import ValidationError

from rackbench_results.outcomes import Outcome
from rackbench_results.records import Call, Event, Record, Result, Step

R = TypeVar("R", bound=Record)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS = 120


class StoreError(RuntimeError):
    """A file of a run folder cannot be read or written; the message names it."""


class RunLocked(StoreError):  # noqa: N818
    """Another process works on this run."""


def write_record(path: Path, record: Record) -> None:
    """Write a record whole or not at all: temporary file, fsync, rename, fsync of the folder."""
    _write_whole(path, _encoded(record, indent=1))


def write_json(path: Path, value: object) -> None:
    """Write plain data whole or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    _write_whole(path, text.encode(errors="replace"))


def _encoded(record: Record, *, indent: int | None = None) -> bytes:
    try:
        return record.model_dump_json(indent=indent).encode()
    except ValueError:
        # Half a surrogate pair: JSON from a model can hold it, UTF-8 cannot.
        text = json.dumps(record.model_dump(mode="json"), indent=indent, ensure_ascii=False)
        return text.encode(errors="replace")


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # gone already, unless something failed
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
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise StoreError(f"{path} is no {kind.__name__}: {_first_problem(error)}") from error


def read_json(path: Path) -> Any:
    """Plain data. Raises StoreError."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


def append_line(file: BinaryIO, record: Record) -> None:
    """Add a line to an append-only log; it is with the kernel when this returns."""
    file.write(_encoded(record) + b"\n")
    file.flush()


def read_lines(path: Path, kind: type[R]) -> Iterator[R]:
    """Lines of a log; a torn last one is dropped.

    Raises StoreError, with the line's number, for any other that is damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    *lines, _torn = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            yield kind.model_validate_json(line)
        except ValidationError as error:
            raise StoreError(f"{path}, line {number}: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


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
        return sorted(trial.glob("attempt-[0-9]*"), key=_number)

    def next_attempt(self, trial: Path) -> Path:
        """Claim the folder of a new attempt; of several claimants each gets its own."""
        trial.mkdir(parents=True, exist_ok=True)
        while True:
            before = self.attempts(trial)
            number = _number(before[-1]) + 1 if before else 1
            folder = trial / f"attempt-{number:02}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder

    def results(self) -> Iterator[Result]:
        """Every committed attempt, by trial, oldest first."""
        return (result for _, result in self.results_with_paths())

    def results_with_paths(self, arm: str | None = None) -> Iterator[tuple[Path, Result]]:
        """The same with the folders of the attempts; of one arm, or of all."""
        arms = _safe(arm) if arm else "*"
        trials = self.path.glob(f"trials/*/{arms}/[0-9]*")
        for trial in sorted(trials, key=lambda path: (path.parent, _number(path))):
            for folder in self.attempts(trial):
                if result := read_record(folder / "result.json", Result):
                    yield folder, result

    def attempts_of(self, arm: str) -> Iterator[Path]:
        """Folders of every attempt of an arm, those without a result among them."""
        trials = self.path.glob(f"trials/*/{_safe(arm)}/[0-9]*")
        for trial in sorted(trials, key=lambda path: (path.parent, _number(path))):
            yield from self.attempts(trial)

    def final_results(self) -> list[Result]:
        """One result a trial: the last that says something, else the last there is."""
        return [result for _, result in self.final_results_with_paths()]

    def final_results_with_paths(self, arm: str | None = None) -> list[tuple[Path, Result]]:
        """The same with the folders of the attempts; of one arm, or of all."""
        return list(final_of(self.results_with_paths(arm)).values())

    def calls(self, result: Result) -> Iterator[Call]:
        """Model calls of one attempt, failed ones included."""
        for folder, found in self.results_with_paths(result.arm):
            if found == result:
                yield from _calls(folder)

    def calls_of(self, arm: str) -> Iterator[Call]:
        """Model calls of an arm's final attempts, read as they are asked for."""
        for folder, _ in self.final_results_with_paths(arm):
            yield from _calls(folder)


def final_of(attempts: Iterable[tuple[Path, Result]]) -> dict[Path, tuple[Path, Result]]:
    """Of each trial's attempts, given oldest first, the one that stands for it; by trial folder."""
    chosen: dict[Path, tuple[Path, Result]] = {}
    for folder, result in attempts:
        before = chosen.get(folder.parent)
        if before is None or not (_says_something(before[1]) and not _says_something(result)):
            chosen[folder.parent] = (folder, result)
    return chosen


def _calls(folder: Path) -> Iterator[Call]:
    path = folder / "calls.jsonl"
    return read_lines(path, Call) if path.exists() else iter(())


class AttemptLog:
    """What happens in an attempt, line by line; satisfies a harness's `Recorder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began = time.monotonic()
        self._events: BinaryIO
        self._steps: BinaryIO | None = None

    def __enter__(self) -> Self:
        self._events = (self._folder / "events.jsonl").open("ab")
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
            self._steps = (self._folder / "agent" / "steps.jsonl").open("ab")
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
        since = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(f"process {os.getpid()} on {os.uname().nodename} since {since}")
        file.flush()
        yield


def new_run_id(name: str, now: datetime) -> str:
    """Sorts by time, says what it is, and is not taken: `20261130T221719Z-name-7f3a`."""
    slug = _UNSAFE.sub("-", name).strip("-.")[:_NAME_CHARACTERS] or "run"
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{slug}-{secrets.token_hex(2)}"


def create_run(results: Path, name: str, now: datetime) -> RunFolder:
    """A new run folder."""
    path = results.resolve() / new_run_id(name, now)
    path.mkdir(parents=True)
    return RunFolder(path)


def _says_something(result: Result) -> bool:
    return result.outcome not in (Outcome.VOID, Outcome.CANCELLED)


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _safe(name: str) -> str:
    """One name of a folder; names that had to be changed are kept apart by a digest."""
    plain = name.replace("/", "__")
    safe = _UNSAFE.sub("_", plain).lstrip(".")[:_NAME_CHARACTERS]
    if safe == plain and safe:
        return safe
    return f"{safe}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"
