"""The index: a database over run folders, derived from them, deletable and rebuilt at will."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rackbench_results.index_database import arms, calls, open_index, runs, trials, writing
from rackbench_results.records import Call, Result
from rackbench_results.store import RunFolder, StoreError, final_of, read_json, read_lines


def sync(engine: sa.Engine, results: Path) -> int:
    """Bring the index up to date with the run folders; returns how many runs were imported.

    A run is one transaction: it is in the index whole, or as it was before. Runs of other
    machines, and of other folders that still exist, stay.
    """
    host = os.uname().nodename
    found = {
        path.parent.name: RunFolder(path.parent.resolve()) for path in results.glob("*/plan.json")
    }
    with engine.connect() as connection:
        rows = connection.execute(
            sa.select(runs.c.run, runs.c.host, runs.c.folder, runs.c.state)
        ).all()
    known = {run: (where, folder, state) for run, where, folder, state in rows}
    for run, (where, folder, _) in known.items():
        if where == host and run not in found and not Path(folder).exists():
            with writing(engine) as connection:
                _delete(connection, run)
    imported = 0
    for run, folder in found.items():
        origin = (host, str(folder.path), _state(folder))
        if known.get(run) != origin:
            # Read first: others wait while a transaction is open.
            rows_of_run = _read(folder, origin)
            try:
                _replace(engine, rows_of_run)
            except sa.exc.IntegrityError as error:
                _replace(engine, rows_of_run.without(f"{folder.path}: {error.orig}"))
            imported += 1
    return imported


def list_runs(engine: sa.Engine) -> list[Mapping[str, Any]]:
    """Runs, newest first, with how their trials ended."""

    def count(*outcomes: str) -> sa.ColumnElement[int]:
        hit = sa.and_(trials.c.final, trials.c.outcome.in_(outcomes))
        return sa.func.coalesce(sa.func.sum(sa.case((hit, 1), else_=0)), 0)

    query = (
        sa.select(
            runs.c.run,
            runs.c.name,
            runs.c.planned.label("trials"),
            runs.c.problem,
            count("solved").label("solved"),
            count("solved", "unsolved").label("counted"),
            count("void").label("void"),
            count("solved", "unsolved", "void", "unsupported").label("finished"),
        )
        .join(trials, trials.c.run == runs.c.run, isouter=True)
        .group_by(runs.c.run, runs.c.name, runs.c.planned, runs.c.problem)
        .order_by(runs.c.run.desc())
    )
    return _rows(engine, query)


def run_trials(engine: sa.Engine, run: str) -> list[Mapping[str, Any]]:
    """Every committed attempt of a run."""
    order = (
        trials.c.task,
        trials.c.arm,
        trials.c.index,
        trials.c.attempt,
    )
    return _rows(engine, sa.select(trials).where(trials.c.run == run).order_by(*order))


def _rows(engine: sa.Engine, query: sa.Select[Any]) -> list[Mapping[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def _state(folder: RunFolder) -> str:
    """Changes whenever a result is added: results are written once."""
    count = newest = 0
    for trial in folder.path.glob("trials/*/*/*"):
        for attempt in os.scandir(trial):
            try:
                changed = Path(attempt, "result.json").stat().st_mtime_ns
            except (FileNotFoundError, NotADirectoryError):
                continue
            count, newest = count + 1, max(newest, changed)
    return f"{count}:{newest}:{folder.plan_path.stat().st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class _RunRows:
    """All rows of one run."""

    run: dict[str, Any]
    arm_rows: list[dict[str, Any]]
    trial_rows: list[dict[str, Any]]
    call_rows: list[dict[str, Any]]

    def without(self, problem: str) -> _RunRows:
        """The run alone, with why there is no more."""
        return _RunRows({**self.run, "problem": problem}, [], [], [])


def _read(folder: RunFolder, origin: tuple[str, str, str]) -> _RunRows:
    """A run that cannot be read is listed with the reason: it must not hide the others."""
    host, path, state = origin
    run = {
        "run": folder.path.name,
        "name": folder.path.name,
        "planned": 0,
        "host": host,
        "folder": path,
        "state": state,
        "problem": None,
    }
    try:
        plan = read_json(folder.plan_path)
        run |= {"name": plan["name"], "planned": len(plan["trials"])}
        attempts = list(folder.results_with_paths())
        call_rows = [row for at, result in attempts for row in _calls_of(folder, at, result)]
        arm_rows = [_arm(folder, plan, arm) for arm in plan["arms"]]
    except StoreError as error:
        return _RunRows(run, [], [], []).without(str(error))
    except (KeyError, TypeError) as error:
        problem = f"{folder.plan_path} is of another version: {error!r}"
        return _RunRows(run, [], [], []).without(problem)
    final = {at for at, _ in final_of(attempts).values()}
    trial_rows = [
        {**_key(folder.path.name, at, result), **_trial(result), "final": at in final}
        for at, result in attempts
    ]
    return _RunRows(run, arm_rows, trial_rows, call_rows)


def _delete(connection: sa.Connection, run: str) -> None:
    for table in (calls, trials, arms, runs):
        connection.execute(table.delete().where(table.c.run == run))


def _replace(engine: sa.Engine, rows: _RunRows) -> None:
    with writing(engine) as connection:
        _delete(connection, rows.run["run"])
        connection.execute(runs.insert(), rows.run)
        for table, values in (
            (arms, rows.arm_rows),
            (trials, rows.trial_rows),
            (calls, rows.call_rows),
        ):
            if values:
                connection.execute(table.insert(), values)


def _arm(folder: RunFolder, plan: Mapping[str, Any], arm: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run": folder.path.name,
        "arm": arm["name"],
        "harness": arm["harness"],
        "harness_version": arm["harness_version"],
        "endpoint": arm["endpoint"],
        "digest": arm["digest"],
        "planned": sum(trial[1] == arm["name"] for trial in plan["trials"]),
    }


def _calls_of(folder: RunFolder, at: Path, result: Result) -> Iterator[dict[str, Any]]:
    if (at / "calls.jsonl").exists():
        key = _key(folder.path.name, at, result)
        for call in read_lines(at / "calls.jsonl", Call):
            yield key | _call(call)


def _key(run: str, path: Path, result: Result) -> dict[str, Any]:
    return {
        "run": run,
        "task": path.parents[2].name,
        "arm": result.arm,
        "index": result.key.index,
        "attempt": result.attempt,
    }


def _trial(result: Result) -> dict[str, Any]:
    return {
        "task_digest": result.key.task_digest,
        "arm_digest": result.key.arm_digest,
        "outcome": str(result.outcome),
        "reason": str(result.reason) if result.reason else None,
        "reward": result.reward,
        "started_at": result.started_at,
        "seconds": result.seconds,
        "queue_seconds": result.queue_seconds,
        "steps": result.usage.steps,
        "prompt_tokens": result.usage.prompt_tokens,
        "cached_tokens": result.usage.cached_tokens,
        "completion_tokens": result.usage.completion_tokens,
        "model_seconds": result.usage.model_seconds,
    }


def _call(call: Call) -> dict[str, Any]:
    return {
        "number": call.number,
        "status": call.status,
        "prompt_tokens": call.prompt_tokens,
        "cached_tokens": call.cached_tokens,
        "completion_tokens": call.completion_tokens,
        "first_token_seconds": call.first_token_seconds,
        "finished_seconds": call.finished_seconds,
    }


__all__ = ["list_runs", "open_index", "run_trials", "sync"]
