"""Instances of the queue under test, and clients that talk to them."""

import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

PATIENCE_SECONDS = 20


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Instance:
    """One process of the service."""

    def __init__(self, db, log):
        self.port = free_port()
        self.log = log
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-B", "-m", "jobqueue"],
            cwd="/app",
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": "/tmp",
                "LANG": "C.UTF-8",
                "QUEUE_DB": str(db),
                "QUEUE_PORT": str(self.port),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def wait(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            assert self.process.poll() is None, f"an instance ended: {self.said()}"
            assert time.monotonic() < deadline, f"an instance does not answer: {self.said()}"
            try:
                if Client(self)("GET", "/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.02)

    def said(self):
        self.log.flush()
        with open(self.log.name, errors="replace") as file:
            return file.read()[-1500:]

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Client:
    """One connection to an instance, for one thread."""

    def __init__(self, instance):
        self.http = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=PATIENCE_SECONDS)

    def __call__(self, method, path, **body):
        data = json.dumps(body) if method == "POST" else None
        try:
            self.http.request(method, path, data)
            answer = self.http.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.http.close()
            raise
        if answer.status >= 500:
            raise AssertionError(f"{method} {path}: {answer.status} {text[:200]!r}")
        return answer.status, json.loads(text) if text else None

    def submit(self, payload=None, **more):
        status, body = self("POST", "/jobs", payload=payload, **more)
        assert status in (200, 201), status
        return status, body["id"]

    def claim(self, worker, lease_seconds=60):
        status, body = self("POST", "/claim", worker=worker, lease_seconds=lease_seconds)
        assert status in (200, 204), status
        return body

    def complete(self, number, worker, result=None):
        return self("POST", f"/jobs/{number}/complete", worker=worker, result=result)[0]

    def job(self, number):
        status, body = self("GET", f"/jobs/{number}")
        assert status == 200, status
        return body

    def stats(self):
        status, body = self("GET", "/stats")
        assert status == 200, status
        return body


@contextmanager
def instances(db, count=2):
    """Instances that start at the same time; killed at the end."""
    with open(f"{db}.log", "ab") as log:
        started = [Instance(db, log) for _ in range(count)]
        try:
            for instance in started:
                instance.wait()
            yield started
        finally:
            for instance in started:
                instance.kill()


def at_once(started, count, act):
    """Call act(client, number) in many threads that begin together, spread over the instances."""
    begin = threading.Barrier(count, timeout=PATIENCE_SECONDS)

    def one(number):
        client = Client(started[number % len(started)])
        begin.wait()
        return act(client, number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


def figures(db):
    """The figures as the dashboard reads them, and as the table of jobs has them, at one moment."""
    with closing(sqlite3.connect(db, timeout=PATIENCE_SECONDS, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        shown = dict(reader.execute("SELECT name, value FROM counters"))
        submitted, claimed, completed = reader.execute(
            "SELECT count(*), coalesce(sum(attempts), 0), coalesce(sum(state = 'done'), 0) FROM jobs"
        ).fetchone()
        reader.execute("ROLLBACK")
    shown = {name: shown.get(name) for name in ("submitted", "claimed", "completed")}
    return shown, {"submitted": submitted, "claimed": claimed, "completed": completed}


@contextmanager
def watched(db, instance):
    """Look at the figures all the while; they have to be right at every look."""
    over, wrong, looks = threading.Event(), [], []

    def watch():
        client = Client(instance)
        while not over.wait(0.01):
            shown, counted = figures(db)
            if shown != counted:
                wrong.append((shown, counted))
            stats = client.stats()
            if stats["submitted"] != stats["queued"] + stats["running"] + stats["completed"]:
                wrong.append(stats)
            looks.append(stats)

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        try:
            yield
        finally:
            over.set()
        watching.result()
    assert looks
    assert not wrong, f"{len(wrong)} of {len(looks)} looks, the first: {wrong[0]}"
