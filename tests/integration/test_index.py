"""The index over real run folders, in a real database: derived, repeatable, never in the way."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa

from rackbench_results import (
    Call,
    Result,
    RunFolder,
    StoreError,
    TrialKey,
    append_line,
    create_run,
    write_json,
    write_record,
)
from rackbench_results.index import list_runs, open_index, run_trials, sync

NOW = datetime(2026, 11, 30, 22, tzinfo=timezone(timedelta(hours=9)))


def make_run(results: Path, name: str, *, minute: int = 0) -> RunFolder:
    run = create_run(results, name, NOW + timedelta(minutes=minute))
    arm = {"harness": "loop", "harness_version": "1", "endpoint": "model", "digest": "d"}
    trials = [["task", arm_name, index] for arm_name in ("a", "b") for index in range(2)]
    arms = [{"name": "a", **arm}, {"name": "b", **arm, "endpoint": None}]
    write_json(run.plan_path, {"name": name, "trials": trials, "arms": arms})
    return run


def commit(run: RunFolder, outcome: str, *, arm: str = "a", index: int = 0, reason=None) -> Path:
    folder = run.next_attempt(run.trial_folder("task", arm, index))
    with (folder / "calls.jsonl").open("ab") as file:
        for number in (1, 2):
            append_line(
                file, Call(number=number, received_at=NOW, dialect="d", path="/", prompt_tokens=7)
            )
    result = Result(
        run_id=run.path.name,
        key=TrialKey(task_digest="t", arm_digest="x", index=index),
        task_id="org/task",
        arm=arm,
        attempt=int(folder.name.rpartition("-")[2]),
        outcome=outcome,
        reason=reason,
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=5),
    )
    write_record(folder / "result.json", result)
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'index.sqlite'}"


@pytest.fixture
def index(url: str) -> Iterator[sa.Engine]:
    with open_index(url) as engine:
        yield engine


def names(engine: sa.Engine) -> list[str]:
    return [row["name"] for row in list_runs(engine)]


def counted(engine: sa.Engine, table: str) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()


def test_runs_newest_first_with_how_their_trials_ended(index: sa.Engine, results: Path) -> None:
    old = make_run(results, "old")
    commit(old, "void", reason="disk")
    commit(old, "solved")
    commit(old, "unsolved", index=1, reason="wrong")
    commit(old, "void", arm="b", reason="build")
    commit(old, "cancelled", arm="b", index=1)
    make_run(results, "new", minute=1)
    assert sync(index, results) == 2
    new, first = list_runs(index)
    assert (new["name"], new["trials"], new["finished"], new["problem"]) == ("new", 4, 0, None)
    kinds = ("trials", "solved", "counted", "void", "finished")
    assert [first[kind] for kind in kinds] == [4, 1, 2, 1, 3]


def test_every_committed_attempt_with_its_calls(index: sa.Engine, results: Path) -> None:
    run = make_run(results, "run")
    commit(run, "void", reason="disk")
    commit(run, "solved")
    run.next_attempt(run.trial_folder("task", "a", 1))
    sync(index, results)
    first, second = run_trials(index, run.path.name)
    assert [(row["attempt"], row["final"]) for row in (first, second)] == [(1, False), (2, True)]
    assert (first["task"], first["outcome"], first["reason"]) == ("task", "void", "disk")
    assert (second["reason"], second["reward"], second["seconds"]) == (None, None, 5)
    assert second["started_at"] == NOW
    assert second["started_at"].tzinfo is UTC
    assert counted(index, "calls") == 4
    assert counted(index, "arms") == 2


def test_twice_is_once(index: sa.Engine, results: Path) -> None:
    run = make_run(results, "run")
    commit(run, "solved")
    assert [sync(index, results) for _ in range(3)] == [1, 0, 0]
    before = run_trials(index, run.path.name)
    commit(run, "solved", index=1)
    assert [sync(index, results) for _ in range(2)] == [1, 0]
    after = run_trials(index, run.path.name)
    assert [row for row in after if row["index"] == 0] == before
    assert len(after) == 2


def test_a_result_that_was_written_again_is_read_again(index: sa.Engine, results: Path) -> None:
    run = make_run(results, "run")
    folder = commit(run, "solved")
    sync(index, results)
    path = folder / "result.json"
    path.write_text(path.read_text().replace('"solved"', '"cancelled"'))
    assert sync(index, results) == 1
    assert run_trials(index, run.path.name)[0]["outcome"] == "cancelled"


def test_a_run_that_is_gone_is_gone_here_too(index: sa.Engine, results: Path) -> None:
    runs = [make_run(results, name) for name in ("stays", "goes")]
    for run in runs:
        commit(run, "solved")
    sync(index, results)
    shutil.rmtree(runs[1].path)
    assert sync(index, results) == 0
    assert names(index) == ["stays"]
    assert [counted(index, table) for table in ("trials", "arms", "calls")] == [1, 2, 2]


def test_two_results_folders_share_an_index(
    index: sa.Engine, results: Path, tmp_path: Path
) -> None:
    make_run(results, "here")
    make_run(tmp_path / "elsewhere", "there", minute=1)
    sync(index, results)
    sync(index, tmp_path / "elsewhere")
    assert [sync(index, results), names(index)] == [0, ["there", "here"]]


def test_runs_of_another_machine_stay(index: sa.Engine, results: Path) -> None:
    run = make_run(results, "theirs")
    sync(index, results)
    with index.begin() as connection:
        connection.execute(sa.text("UPDATE runs SET host = 'another'"))
    shutil.rmtree(run.path)
    sync(index, results)
    assert names(index) == ["theirs"]


def test_a_results_folder_that_moved_is_followed(
    index: sa.Engine, results: Path, tmp_path: Path
) -> None:
    for name in ("stays", "goes"):
        make_run(results, name)
    sync(index, results)
    moved = results.rename(tmp_path / "moved")
    shutil.rmtree(next(moved.glob("*-goes-*")))
    assert sync(index, moved) == 1
    assert names(index) == ["stays"]


@pytest.mark.parametrize("damage", ["result", "plan", "log", "version"])
def test_a_run_that_cannot_be_read_hides_no_other(
    index: sa.Engine, results: Path, damage: str
) -> None:
    bad, good = make_run(results, "bad", minute=1), make_run(results, "good")
    folder = commit(bad, "solved")
    commit(good, "solved")
    path = {
        "result": folder / "result.json",
        "log": folder / "calls.jsonl",
        "plan": bad.plan_path,
        "version": bad.plan_path,
    }[damage]
    before = path.read_bytes()
    path.write_bytes(b'{"name": "bad"}' if damage == "version" else b"{\n}\n")
    assert sync(index, results) == 2
    first, second = list_runs(index)
    assert str(path) in first["problem"]
    assert first["run"] == bad.path.name
    assert (second["name"], second["problem"], second["solved"]) == ("good", None, 1)
    # Mended, it is read again; a change of a log alone shows with the next result.
    path.write_bytes(before)
    commit(bad, "solved", index=1)
    assert sync(index, results) == 1
    assert [row["problem"] for row in list_runs(index)] == [None, None]
    assert list_runs(index)[0]["solved"] == 2


def test_what_is_no_run_is_left_alone(index: sa.Engine, results: Path) -> None:
    make_run(results, "run")
    (results / "notes").mkdir()
    (results / "file.txt").write_text("hello")
    assert sync(index, results) == 1
    assert sync(index, results / "nowhere") == 0


def test_attempts_that_contradict_each_other_hide_no_other_run(
    index: sa.Engine, results: Path
) -> None:
    run = make_run(results, "run")
    folder = commit(run, "solved")
    make_run(results, "other", minute=1)
    twin = folder.parent / "attempt-02"
    shutil.copytree(folder, twin)
    assert sync(index, results) == 2
    assert [row["problem"] is None for row in list_runs(index)] == [True, False]
    assert str(run.path) in list_runs(index)[1]["problem"]
    shutil.rmtree(twin)
    assert sync(index, results) == 1
    assert list_runs(index)[1]["solved"] == 1


SYNC = """
import sys
from pathlib import Path
from rackbench_results.index import open_index, sync
with open_index(sys.argv[1]) as engine:
    print("open", flush=True)
    sync(engine, Path(sys.argv[2]))
"""


@pytest.mark.parametrize("delay_seconds", [0.0, 0.02, 0.05, 0.1, 0.15, 0.2])
def test_a_run_is_in_the_index_whole_or_not_at_all(
    url: str, results: Path, delay_seconds: float
) -> None:
    run = make_run(results, "run")
    for _ in range(200):
        commit(run, "void", reason="disk")
    command = [sys.executable, "-c", SYNC, url, str(results)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(delay_seconds)
        process.kill()
    with open_index(url) as engine:
        found = [counted(engine, table) for table in ("runs", "arms", "trials", "calls")]
        assert found in ([0, 0, 0, 0], [1, 2, 200, 400])
        sync(engine, results)
        assert counted(engine, "calls") == 400


def test_reading_goes_on_while_somebody_writes(index: sa.Engine, results: Path, url: str) -> None:
    make_run(results, "run")
    sync(index, results)
    with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM arms")
        assert names(index) == ["run"]
        other.execute("ROLLBACK")
    other.close()


def rebuilt(url: str, results: Path) -> list[str]:
    with open_index(url) as engine:
        sync(engine, results)
        return names(engine)


@pytest.mark.parametrize(
    "content",
    [b"", b"no database at all\n" * 500, b"SQLite format 3\x00" + b"\x07" * 5000],
    ids=["empty", "text", "damaged"],
)
def test_a_file_that_is_no_index_is_made_anew(url: str, results: Path, content: bytes) -> None:
    make_run(results, "run")
    path = Path(url.removeprefix("sqlite:///"))
    path.write_bytes(content)
    assert rebuilt(url, results) == ["run"]
    # It may be somebody's by mistake.
    if content:
        assert path.with_name(f"{path.name}.damaged").read_bytes() == content


def trials_of(url: str, run: RunFolder) -> list[object]:
    with open_index(url) as engine:
        return run_trials(engine, run.path.name)


def test_damage_in_the_middle_is_said_and_gone_the_next_time(url: str, results: Path) -> None:
    run = make_run(results, "run")
    for index in range(2):
        for _ in range(60):
            commit(run, "void", index=index, reason="disk")
    assert rebuilt(url, results) == ["run"]
    path = Path(url.removeprefix("sqlite:///"))
    data = bytearray(path.read_bytes())
    assert len(data) > 8 * 4096
    data[4096 * 2 :] = b"\xa5" * (len(data) - 4096 * 2)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="was damaged and is put aside; try again"):
        trials_of(url, run)
    assert rebuilt(url, results) == ["run"]


@pytest.mark.parametrize(
    "change", ["UPDATE rackbench_meta SET schema = 0", "DELETE FROM rackbench_meta"]
)
def test_an_index_of_another_version_is_made_anew(url: str, results: Path, change: str) -> None:
    make_run(results, "run")
    rebuilt(url, results)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute(change)
        database.execute("DROP TABLE trials")
        database.execute("CREATE TABLE trials (something TEXT)")
        database.execute("ALTER TABLE runs ADD COLUMN older TEXT")
    database.close()
    assert rebuilt(url, results) == ["run"]


def test_what_cannot_be_opened_is_said(url: str, results: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used: unable to open database file"):
        rebuilt(f"sqlite:///{tmp_path / 'nowhere' / 'index.sqlite'}", results)
    with pytest.raises(StoreError, match="no index can be opened in a 'nonsense' database"):
        rebuilt("nonsense", results)
    with pytest.raises(StoreError, match="no index can be opened in a 'nosuch' database"):
        rebuilt("nosuch://me:secret@x", results)


def test_many_at_once_on_a_new_index(url: str, results: Path) -> None:
    for number in range(4):
        commit(make_run(results, f"run-{number}"), "solved")
    command = [sys.executable, "-c", SYNC, url, str(results)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    assert [process.communicate()[1] for process in processes] == [b""] * 6
    assert {process.returncode for process in processes} == {0}
    with open_index(url) as engine:
        assert sync(engine, results) == 0
        assert counted(engine, "trials") == 4
        assert counted(engine, "rackbench_meta") == 1
