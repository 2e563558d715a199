"""Jobs and figures in one SQLite file.

Every change is one transaction that takes the write lock before it reads, so that no other instance
can come between reading and writing; the figures change in the transaction that changes the jobs.
"""

import json
import sqlite3
import time
from contextlib import closing, contextmanager

SCHEMA = [
    """
    CREATE TABLE IF NOT EXISTS jobs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT,
        payload TEXT NOT NULL,
        priority INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL DEFAULT 'queued',
        worker TEXT,
        lease_until REAL,
        attempts INTEGER NOT NULL DEFAULT 0,
        result TEXT
    )
    """,
    "CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    # Not unique: old databases hold keys with two jobs.
    "CREATE INDEX IF NOT EXISTS jobs_by_key ON jobs(key) WHERE key IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS jobs_to_do ON jobs(priority DESC, id) WHERE state != 'done'",
    """
    INSERT OR REPLACE INTO counters
    SELECT 'submitted', count(*) FROM jobs
    UNION ALL SELECT 'claimed', coalesce(sum(attempts), 0) FROM jobs
    UNION ALL SELECT 'completed', coalesce(sum(state = 'done'), 0) FROM jobs
    """,
]
LOCK_SECONDS = 60


class NotFound(Exception):
    """There is no such job."""


class NotYours(Exception):
    """The job is somebody else's, or nobody's."""


class Store:
    """The queue; each call opens the database for itself."""

    def __init__(self, path):
        self.path = path
        # Kept open: with the last connection SQLite would take the write-ahead log away each time.
        self.keep = self.prepare()

    def prepare(self):
        """Switch to the write-ahead log and bring the schema up to date."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            db = self.connect()
            try:
                # Switching needs the file alone, and SQLite does not wait for that.
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA:
                    db.execute(statement)
                db.execute("COMMIT")
                return db
            except sqlite3.OperationalError:
                db.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def connect(self):
        db = sqlite3.connect(
            self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        db.row_factory = sqlite3.Row
        return db

    @contextmanager
    def transaction(self, kind="IMMEDIATE"):
        """A transaction that is committed at the end, and undone where something goes wrong."""
        with closing(self.connect()) as db:
            db.execute(f"BEGIN {kind}")
            yield db
            db.execute("COMMIT")

    def submit(self, payload, priority=0, key=None):
        """Add a job; the id, and whether it is new."""
        with self.transaction() as db:
            if key is not None:
                found = db.execute("SELECT min(id) FROM jobs WHERE key = ?", (key,)).fetchone()
                if found[0] is not None:
                    return found[0], False
            cursor = db.execute(
                "INSERT INTO jobs (key, payload, priority) VALUES (?, ?, ?)",
                (key, json.dumps(payload), priority),
            )
            count(db, "submitted")
            return cursor.lastrowid, True

    def claim(self, worker, lease_seconds=30):
        """Hand the next job to a worker; None where there is none."""
        with self.transaction() as db:
            now = time.time()
            job = db.execute(
                "SELECT * FROM jobs WHERE state != 'done' AND (state = 'queued' OR lease_until < ?)"
                " ORDER BY priority DESC, id LIMIT 1",
                (now,),
            ).fetchone()
            if job is None:
                return None
            db.execute(
                "UPDATE jobs SET state = 'running', worker = ?, lease_until = ?, attempts = ?"
                " WHERE id = ?",
                (worker, now + lease_seconds, job["attempts"] + 1, job["id"]),
            )
            count(db, "claimed")
            return {
                "id": job["id"],
                "payload": json.loads(job["payload"]),
                "priority": job["priority"],
                "attempts": job["attempts"] + 1,
            }

    def complete(self, number, worker, result=None):
        """Take a worker's result."""
        with self.transaction() as db:
            job = db.execute("SELECT * FROM jobs WHERE id = ?", (number,)).fetchone()
            if job is None:
                raise NotFound(number)
            if job["worker"] is None or job["worker"] != worker:
                raise NotYours(number)
            if job["state"] == "running":
                db.execute(
                    "UPDATE jobs SET state = 'done', result = ? WHERE id = ?",
                    (json.dumps(result), number),
                )
                count(db, "completed")

    def get(self, number):
        """One job."""
        with self.transaction("DEFERRED") as db:
            job = db.execute("SELECT * FROM jobs WHERE id = ?", (number,)).fetchone()
        if job is None:
            raise NotFound(number)
        fields = ("id", "priority", "state", "worker", "attempts")
        return {
            **{field: job[field] for field in fields},
            "payload": json.loads(job["payload"]),
            "result": json.loads(job["result"]) if job["result"] else None,
        }

    def stats(self):
        """The figures, all of the same moment."""
        with self.transaction("DEFERRED") as db:
            found = {row["name"]: row["value"] for row in db.execute("SELECT * FROM counters")}
            for state in ("queued", "running"):
                (found[state],) = db.execute(
                    "SELECT count(*) FROM jobs WHERE state = ?", (state,)
                ).fetchone()
            return found


def count(db, name):
    """Add one to a figure."""
    db.execute("UPDATE counters SET value = value + 1 WHERE name = ?", (name,))
