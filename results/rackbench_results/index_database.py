"""The index's database: its tables, made and remade, and how it is opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from rackbench_results.store import StoreError

_SCHEMA = 2
_LOCK = 0x7261636B  # any number that others do not take
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class _UtcTime(sa.TypeDecorator[datetime]):
    """SQLite forgets time zones."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC) if value else None


def _run_key() -> sa.Column[str]:
    return sa.Column("run", sa.String, sa.ForeignKey("runs.run"), primary_key=True)


metadata = sa.MetaData()
_meta = sa.Table("rackbench_meta", metadata, sa.Column("schema", sa.Integer, nullable=False))
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("planned", sa.Integer, nullable=False),
    sa.Column("host", sa.String, nullable=False),
    sa.Column("folder", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),  # what the files looked like when imported
    sa.Column("problem", sa.String),  # why its files could not be read
)
arms = sa.Table(
    "arms",
    metadata,
    _run_key(),
    sa.Column("arm", sa.String, primary_key=True),
    sa.Column("harness", sa.String, nullable=False),
    sa.Column("harness_version", sa.String),
    sa.Column("endpoint", sa.String),
    sa.Column("digest", sa.String, nullable=False),
    sa.Column("planned", sa.Integer, nullable=False),
)
trials = sa.Table(
    "trials",
    metadata,
    _run_key(),
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
    sa.Column("started_at", _UtcTime, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("queue_seconds", sa.Float, nullable=False),
    sa.Column("steps", sa.Integer, nullable=False),
    sa.Column("prompt_tokens", sa.Integer),
    sa.Column("cached_tokens", sa.Integer),
    sa.Column("completion_tokens", sa.Integer),
    sa.Column("model_seconds", sa.Float, nullable=False),
    sa.Index("trials_by_outcome", "run", "final", "outcome"),
)
calls = sa.Table(
    "calls",
    metadata,
    _run_key(),
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
    try:
        engine = sa.create_engine(url)
    except (sa.exc.ArgumentError, ImportError) as error:
        kind = url.partition(":")[0]  # the rest may hold a password
        raise StoreError(f"no index can be opened in a {kind!r} database: {error}") from error
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    shown = engine.url.render_as_string()
    try:
        _ensure_schema(engine)
        yield engine
    except sa.exc.DatabaseError as error:
        if _put_aside(engine, error):
            raise StoreError(
                f"the index {shown} was damaged and is put aside; try again"
            ) from error
        raise StoreError(f"the index {shown} cannot be used: {error.orig}") from error
    finally:
        engine.dispose()


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own
    connection.execute("PRAGMA busy_timeout = 10000")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes is read again


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("rackbench_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that waits for other writers before it reads anything."""
    with engine.execution_options(rackbench_writes=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        yield connection


def _ensure_schema(engine: sa.Engine) -> None:
    try:
        if _schema_of(engine) == _SCHEMA:
            return
    except sa.exc.DatabaseError as error:
        # A damaged file holds nothing that the run folders do not.
        if not _put_aside(engine, error):
            raise
    with writing(engine) as connection:
        if (found := _schema_in(connection)) == _SCHEMA:
            return  # somebody else was quicker
        if found is not None:
            for table in reversed(metadata.sorted_tables):
                connection.execute(sa.schema.DropTable(table, if_exists=True))
        metadata.create_all(connection)
        connection.execute(_meta.delete())
        connection.execute(_meta.insert().values(schema=_SCHEMA))


def _schema_of(engine: sa.Engine) -> int | None:
    with engine.connect() as connection:
        return _schema_in(connection)


def _schema_in(connection: sa.Connection) -> int | None:
    if not sa.inspect(connection).has_table(_meta.name):
        return None
    return connection.execute(sa.select(_meta.c.schema)).scalar() or 0


def _put_aside(engine: sa.Engine, error: sa.exc.DatabaseError) -> bool:
    """Rename a SQLite file that is damaged, or none at all: it may be somebody's by mistake."""
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    if code not in _DAMAGED or not engine.url.database:
        return False
    engine.dispose()
    path = Path(engine.url.database)
    path.replace(f"{path}.damaged")
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    return True
