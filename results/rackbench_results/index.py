"""The index: a database over run folders, derived from them, deletable and rebuilt at will."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rackbench_results.records import Call, Result
from rackbench_results.store import RunFolder, StoreError, read_json, read_lines

_SCHEMA = 1
_metadata = sa.MetaData()
_meta = sa.Table("rackbench_meta", _metadata, sa.Column("schema", sa.Integer, nullable=False))
_runs = sa.Table(
    "runs",
    _metadata,
    sa.Column("run", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("planned", sa.Integer, nullable=False),
    sa.Column("state", sa.String, nullable=False),  # what the files looked like when imported
)
_trials = sa.Table(
    "trials",
    _metadata,
    sa.Column("run", sa.String, sa.ForeignKey("runs.run", ondelete="CASCADE"), primary_key=True),
    sa.Column("task", sa.String, primary_key=True),
    sa.Column("arm", sa.String, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("final", sa.Boolean, nullable=False),
    sa.Column("task_digest", sa.String, nullable=False),
    sa.Column("arm_digest", sa.String, nullable=False),
    sa.Column("outcome", sa.String, nullable=False),
    sa.Column("reason", sa.String),
    sa.Column("reward", sa.Float),
    sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("queue_seconds", sa.Float, nullable=False),
    sa.Column("steps", sa.Integer, nullable=False),
    sa.Column("prompt_tokens", sa.Integer),
    sa.Column("cached_tokens", sa.Integer),
    sa.Column("completion_tokens", sa.Integer),
    sa.Column("model_seconds", sa.Float, nullable=False),
    sa.Index("trials_by_outcome", "run", "final", "outcome"),
)
_calls = sa.Table(
    "calls",
    _metadata,
    sa.Column("run", sa.String, sa.ForeignKey("runs.run", ondelete="CASCADE"), primary_key=True),
    sa.Column("task", sa.String, primary_key=True),
    sa.Column("arm", sa.String, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("status", sa.Integer),
    sa.Column("prompt_tokens", sa.Integer),
    sa.Column("cached_tokens", sa.Integer),
    sa.Column("completion_tokens", sa.Integer),
    sa.Column("first_token_seconds", sa.Float),
    sa.Column("finished_seconds", sa.Float),
)


@contextmanager
def open_index(url: str) -> Iterator[sa.Engine]:
    """A database with the present schema; one with another, or a damaged file, is made anew.

    Raises StoreError.
    """
    engine = sa.create_engine(url)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
    try:
        _ensure_schema(engine)
        yield engine
    except sa.exc.OperationalError as error:
        raise StoreError(f"the index {engine.url!r} cannot be used: {error.orig}") from error
    finally:
        engine.dispose()


def sync(engine: sa.Engine, results: Path) -> int:
    """Bring the index up to date with the run folders; returns how many runs were imported.

    A run is one transaction: it is in the index whole, or as it was before.
    """
    folders = {path.parent.name: RunFolder(path.parent) for path in results.glob("*/plan.json")}
    with engine.connect() as connection:
        known = dict(connection.execute(sa.select(_runs.c.run, _runs.c.state)).tuples().all())
    imported = 0
    for run in known.keys() - folders.keys():
        with engine.begin() as connection:
            _delete(connection, run)
    for run, folder in folders.items():
        state = _state(folder)
        if known.get(run) != state:
            with engine.begin() as connection:
                _delete(connection, run)
                _insert(connection, folder, state)
            imported += 1
    return imported


def list_runs(engine: sa.Engine) -> list[Mapping[str, Any]]:
    """Runs, newest first, with how their trials ended."""

    def count(*outcomes: str) -> sa.ColumnElement[int]:
        hit = sa.and_(_trials.c.final, _trials.c.outcome.in_(outcomes))
        return sa.func.coalesce(sa.func.sum(sa.case((hit, 1), else_=0)), 0)

    query = (
        sa.select(
            _runs.c.run,
            _runs.c.name,
            _runs.c.planned.label("trials"),
            count("solved").label("solved"),
            count("solved", "unsolved").label("counted"),
            count("void").label("void"),
            count("solved", "unsolved", "void", "unsupported").label("finished"),
        )
        .join(_trials, _trials.c.run == _runs.c.run, isouter=True)
        .group_by(_runs.c.run, _runs.c.name, _runs.c.planned)
        .order_by(_runs.c.run.desc())
    )
    return _rows(engine, query)


def run_trials(engine: sa.Engine, run: str) -> list[Mapping[str, Any]]:
    """Every committed attempt of a run."""
    order = (_trials.c.task, _trials.c.arm, _trials.c.index, _trials.c.attempt)
    return _rows(engine, sa.select(_trials).where(_trials.c.run == run).order_by(*order))


def _rows(engine: sa.Engine, query: sa.Select[Any]) -> list[Mapping[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA busy_timeout = 10000")


def _ensure_schema(engine: sa.Engine) -> None:
    try:
        found = _schema_of(engine)
    except sa.exc.DatabaseError:
        if engine.dialect.name != "sqlite" or not engine.url.database:
            raise
        # A damaged file holds nothing that the run folders do not.
        engine.dispose()
        Path(engine.url.database).unlink()
        found = None
    if found == _SCHEMA:
        return
    with engine.begin() as connection:
        if found is not None:
            _metadata.drop_all(connection)
        _metadata.create_all(connection)
        connection.execute(_meta.delete())
        connection.execute(_meta.insert().values(schema=_SCHEMA))


def _schema_of(engine: sa.Engine) -> int | None:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table(_meta.name):
            return None
        return connection.execute(sa.select(_meta.c.schema)).scalar() or 0


def _state(folder: RunFolder) -> str:
    """Changes whenever a result is added: results are written once."""
    stamps = [
        path.stat().st_mtime_ns for path in folder.path.glob("trials/*/*/*/attempt-*/result.json")
    ]
    return f"{len(stamps)}:{max(stamps, default=0)}:{folder.plan_path.stat().st_mtime_ns}"


def _delete(connection: sa.Connection, run: str) -> None:
    for table in (_calls, _trials, _runs):
        connection.execute(table.delete().where(table.c.run == run))


def _insert(connection: sa.Connection, folder: RunFolder, state: str) -> None:
    plan, run = read_json(folder.plan_path), folder.path.name
    connection.execute(
        _runs.insert().values(run=run, name=plan["name"], planned=len(plan["trials"]), state=state)
    )
    final = {path for path, _ in folder.final_results_with_paths()}
    trials: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for path, result in folder.results_with_paths():
        key = _key(run, path, result)
        trials.append({**key, **_trial(result), "final": path in final})
        if (path / "calls.jsonl").exists():
            calls += [key | _call(call) for call in read_lines(path / "calls.jsonl", Call)]
    for table, rows in ((_trials, trials), (_calls, calls)):
        if rows:
            connection.execute(table.insert(), rows)


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


TABLES: Sequence[str] = tuple(_metadata.tables)
