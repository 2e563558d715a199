"""Several instances on one database keep the promises of docs/api.md."""

import http.client
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, "/tests")

from service import Client, at_once, figures, instances, watched  # noqa: E402

THREADS = 10


@pytest.fixture(scope="module")
def folder():
    """A folder in memory where there is one: what is tested is locking, not the disk."""
    shared = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def service(folder):
    """Two instances on a database that was not there."""
    with instances(folder / "queue.db") as started:
        yield started


@pytest.fixture
def db(folder):
    return folder / "queue.db"


@pytest.fixture
def client(service):
    """A client of the first instance, with nothing left to do in the queue."""
    client = Client(service[0])
    yield client
    drain(client)


@pytest.fixture
def other(service):
    return Client(service[1])


def drain(client):
    while job := client.claim("drain"):
        assert client.complete(job["id"], "drain") == 200


def test_one_key_is_one_job(service, db, client):
    rounds = 25

    def submit(client, number):
        return [client.submit([key, number], key=f"key-{key}") for key in range(rounds)]

    with watched(db, service[0]):
        answers = at_once(service, THREADS, submit)
    for key in range(rounds):
        these = [answer[key] for answer in answers]
        assert len({number for _, number in these}) == 1, f"one key, several jobs: {these}"
        assert sorted(status for status, _ in these) == [200] * (THREADS - 1) + [201]
    shown, counted = figures(db)
    assert shown == counted
    with closing(sqlite3.connect(db)) as reader:
        assert reader.execute(
            "SELECT count(*) FROM jobs WHERE key LIKE 'key-%'"
        ).fetchone() == (rounds,)


def test_every_job_is_done_once(service, db, client):
    each = 24
    before = client.stats()
    claims, empty = [], []

    def submit(client, number):
        return [client.submit({"from": number, "n": n}, priority=n % 3)[1] for n in range(each)]

    def work(client, number):
        nothing = 0
        while nothing < 3:
            asked = time.monotonic()
            job = client.claim(f"worker-{number}")
            if job is None:
                empty.append(time.monotonic())
                nothing += 1
                continue
            claims.append((asked, job["id"], job["attempts"]))
            assert client.complete(job["id"], f"worker-{number}", number) == 200

    with watched(db, service[1]):
        numbers = [number for some in at_once(service, THREADS, submit) for number in some]
        assert len(set(numbers)) == THREADS * each
        at_once(service, THREADS, work)

    twice = {number: n for number, n in Counter(number for _, number, _ in claims).items() if n > 1}
    assert not twice, f"{len(twice)} jobs were handed out more than once"
    assert {number for _, number, _ in claims} == set(numbers)
    assert {attempts for _, _, attempts in claims} == {1}
    assert min(empty) > max(asked for asked, _, _ in claims), "204 while there was something to do"
    after = client.stats()
    for name in ("submitted", "claimed", "completed"):
        assert after[name] - before[name] == len(numbers), name
    assert (after["queued"], after["running"]) == (0, 0)
    shown, counted = figures(db)
    assert shown == counted


def test_figures_of_one_moment(service, client):
    def act(client, number):
        if number % 2:
            for _ in range(25):
                client.submit("x")
                job = client.claim(f"w{number}")
                assert client.complete(job["id"], f"w{number}") == 200
            return []
        return [client.stats() for _ in range(60)]

    looks = [stats for some in at_once(service, THREADS, act) for stats in some]
    wrong = [s for s in looks if s["submitted"] != s["queued"] + s["running"] + s["completed"]]
    assert not wrong, f"{len(wrong)} of {len(looks)} looks, the first: {wrong[0]}"


def test_a_lease_that_is_over_goes_to_one_worker(service, client):
    for _ in range(12):
        _, number = client.submit("x")
        assert client.claim("lost", lease_seconds=0.01)["id"] == number
        time.sleep(0.03)
        jobs = at_once(service, THREADS, lambda client, n: client.claim(f"w{n}"))
        (job,) = [job for job in jobs if job]
        assert (job["id"], job["attempts"]) == (number, 2)
        holder = f"w{jobs.index(job)}"
        assert client.job(number)["worker"] == holder
        assert client.complete(number, holder) == 200


def test_completing_at_the_same_time_counts_once(service, client):
    for _ in range(12):
        before = client.stats()["completed"]
        _, number = client.submit("x")
        assert client.claim("w")["id"] == number
        codes = at_once(service, THREADS, lambda client, n: client.complete(number, "w", n))
        assert codes == [200] * THREADS
        assert client.stats()["completed"] == before + 1
        first = client.job(number)["result"]
        assert first in range(THREADS)
        assert client.complete(number, "w", "late") == 200
        assert client.job(number)["result"] == first


def test_a_late_worker_against_a_new_one(service, client):
    for _ in range(25):
        _, number = client.submit("x")
        assert client.claim("late", lease_seconds=0.01)["id"] == number
        time.sleep(0.02)

        def act(client, n):
            if n % 2:
                return client.complete(number, "late", "late")
            return client.claim("new")

        answers = at_once(service, 6, act)
        taken, codes = [job for job in answers[::2] if job], set(answers[1::2])
        job = client.job(number)
        if taken:
            assert len(taken) == 1
            assert codes == {409}, "completed by one worker, claimed by another"
            assert (job["state"], job["worker"], job["result"]) == ("running", "new", None)
            assert client.complete(number, "new") == 200
        else:
            assert codes == {200}
            assert (job["state"], job["worker"], job["result"]) == ("done", "late", "late")


def test_order(client, other):
    numbers = [client.submit(n, priority=priority)[1] for n, priority in enumerate([0, 5, -1, 5, 0])]
    expected = [numbers[1], numbers[3], numbers[0], numbers[4], numbers[2]]
    for turn, number in enumerate(expected):
        job = (client, other)[turn % 2].claim("w")
        assert job["id"] == number
        assert job["payload"] == numbers.index(number)
    assert client.claim("w") is None
    for number in expected:
        assert client.complete(number, "w") == 200


def test_a_job_whose_lease_is_over_has_its_old_place(client, other):
    first, second, third = (client.submit("x", priority=p)[1] for p in (1, 0, 0))
    assert client.claim("a", lease_seconds=1)["id"] == first
    assert other.claim("b", lease_seconds=1)["id"] == second
    time.sleep(1.1)
    assert client.stats()["running"] == 2
    for number, attempts in ((first, 2), (second, 2), (third, 1)):
        job = other.claim("c")
        assert (job["id"], job["attempts"]) == (number, attempts)
    assert client.claim("d") is None


def test_who_may_complete(client, other):
    before = client.stats()
    _, number = client.submit({"text": "ü"})
    assert client.complete(number, "a") == 409
    assert client.claim("a", lease_seconds=0.05)["id"] == number
    assert other.complete(number, "b") == 409
    time.sleep(0.1)
    assert other.claim("b")["id"] == number
    assert client.complete(number, "a", "a's") == 409
    assert other.job(number)["state"] == "running"
    assert other.complete(number, "b", "b's") == 200
    assert client.complete(number, "a", "a's") == 409
    assert client.complete(number, "b", "again") == 200
    assert client.job(number) == {
        "id": number, "payload": {"text": "ü"}, "priority": 0, "state": "done",
        "worker": "b", "attempts": 2, "result": "b's",
    }  # fmt: skip
    after = client.stats()
    assert [after[n] - before[n] for n in ("submitted", "claimed", "completed")] == [1, 2, 1]


def test_a_late_worker_without_a_successor(client):
    _, number = client.submit("x")
    assert client.claim("a", lease_seconds=0.01)["id"] == number
    time.sleep(0.05)
    assert client.complete(number, "a", 7) == 200
    assert client.job(number)["result"] == 7
    assert client.claim("b") is None


def test_keys(client, other):
    status, number = client.submit("first", priority=3, key="order 1")
    assert status == 201
    assert other.submit("second", priority=9, key="order 1") == (200, number)
    assert other.claim("w")["payload"] == "first"
    assert other.complete(number, "w") == 200
    assert client.submit("third", key="order 1") == (200, number)
    assert client.submit("x")[1] != client.submit("x")[1]


def test_what_is_not_there(client):
    assert client.complete(10**9, "w") == 404
    assert client("GET", "/jobs/1000000000")[0] == 404
    assert client.claim("w") is None


def test_a_database_of_the_old_version(folder):
    db = folder / "old.db"
    with closing(sqlite3.connect(db)) as old:
        old.executescript(Path("/tests/old_database.sql").read_text())
    with instances(db) as started:
        client, other = map(Client, started)
        shown, counted = figures(db)
        assert shown == counted == {"submitted": 7, "claimed": 7, "completed": 3}
        assert client.submit("third a", key="a") == (200, 1)
        assert other.submit("third b", key="b") == (200, 2)
        assert client.submit("second c", key="c") == (200, 5)
        assert client.submit("d", key="d") == (201, 8)
        jobs = [(client, other)[n % 2].claim("w") for n in range(5)]
        assert [(job["id"], job["attempts"]) for job in jobs] == [
            (3, 1), (2, 1), (4, 3), (6, 1), (8, 1),
        ]  # fmt: skip
        assert client.claim("w") is None
        assert client.job(7)["result"] == "r7"
        shown, counted = figures(db)
        assert shown == counted == {"submitted": 8, "claimed": 12, "completed": 3}


def test_it_survives_being_killed(folder):
    db = folder / "killed.db"
    acknowledged, over = [], threading.Event()

    def submit(client, number):
        turn = 0
        while not over.is_set():
            turn += 1
            try:
                _, job = client.submit("x", key=f"{number}-{turn}")
            except (OSError, http.client.HTTPException):
                assert over.wait(1), "an instance hung up"
                return
            acknowledged.append(job)
            if len(acknowledged) == 60:
                over.set()
                for instance in started:
                    instance.kill()

    with instances(db) as started:
        at_once(started, 4, submit)
    assert len(acknowledged) >= 60
    with instances(db) as started:
        client = Client(started[0])
        for number in acknowledged:
            client.job(number)
        shown, counted = figures(db)
        assert shown == counted
        assert client.claim("w")["attempts"] == 1


def test_many_start_at_the_same_time(folder):
    for turn in range(2):
        db = folder / f"start-{turn}.db"
        with instances(db, count=3) as started:
            at_once(started, 6, lambda client, n: client.submit(n))
            assert Client(started[0]).stats()["submitted"] == 6
