"""Jobs and figures in one SQLite file."""

import json
import sqlite3
import time
from contextlib import closing

SCHEMA = """
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
);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT OR IGNORE INTO counters VALUES ('submitted', 0), ('claimed', 0), ('completed', 0);
"""


class NotFound(Exception):
    """There is no such job."""


class NotYours(Exception):
    """The job is somebody else's, or nobody's."""


class Store:
    """The queue; each call opens the database for itself."""

    def __init__(self, path):
        self.path = path
        with closing(self.connect()) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(SCHEMA)

    def connect(self):
        db = sqlite3.connect(self.path, timeout=0.05)
        db.row_factory = sqlite3.Row
        return db

    def submit(self, payload, priority=0, key=None):
        """Add a job; the id, and whether it is new."""
        with closing(self.connect()) as db:
            if key is not None:
                found = db.execute("SELECT id FROM jobs WHERE key = ?", (key,)).fetchone()
                if found:
                    return found["id"], False
            cursor = db.execute(
                "INSERT INTO jobs (key, payload, priority) VALUES (?, ?, ?)",
                (key, json.dumps(payload), priority),
            )
            db.commit()
            self.count(db, "submitted")
            return cursor.lastrowid, True

    def claim(self, worker, lease_seconds=30):
        """Hand the next job to a worker; None where there is none."""
        now = time.time()
        with closing(self.connect()) as db:
            jobs = db.execute("SELECT * FROM jobs WHERE state != 'done'").fetchall()
            free = [job for job in jobs if job["state"] == "queued" or job["lease_until"] < now]
            if not free:
                return None
            job = min(free, key=lambda job: (-job["priority"], job["id"]))
            db.execute(
                "UPDATE jobs SET state = 'running', worker = ?, lease_until = ?, attempts = ?"
                " WHERE id = ?",
                (worker, now + lease_seconds, job["attempts"] + 1, job["id"]),
            )
            db.commit()
            self.count(db, "claimed")
            return {
                "id": job["id"],
                "payload": json.loads(job["payload"]),
                "priority": job["priority"],
                "attempts": job["attempts"] + 1,
            }

    def complete(self, number, worker, result=None):
        """Take a worker's result."""
        job = self.get(number)
        if job["worker"] != worker:
            raise NotYours(number)
        with closing(self.connect()) as db:
            db.execute(
                "UPDATE jobs SET state = 'done', result = ? WHERE id = ?",
                (json.dumps(result), number),
            )
            db.commit()
            if job["state"] != "done":
                self.count(db, "completed")

    def get(self, number):
        """One job."""
        with closing(self.connect()) as db:
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
        """The figures."""
        with closing(self.connect()) as db:
            found = {row["name"]: row["value"] for row in db.execute("SELECT * FROM counters")}
            for state in ("queued", "running"):
                (found[state],) = db.execute(
                    "SELECT count(*) FROM jobs WHERE state = ?", (state,)
                ).fetchone()
            return found

    def count(self, db, name):
        """Add one to a figure."""
        (value,) = db.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        db.execute("UPDATE counters SET value = ? WHERE name = ?", (value + 1, name))
        db.commit()
