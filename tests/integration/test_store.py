"""The run folder on a real disk: whole records, logs, claims, one writer."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_harnesses.ports import Recorder
from rackbench_results import (
    AttemptLog,
    Call,
    Event,
    Preflight,
    Result,
    RunFolder,
    RunLocked,
    Step,
    StoreError,
    ToolCall,
    TrialKey,
    append_line,
    create_run,
    lock_run,
    new_run_id,
    read_json,
    read_lines,
    read_record,
    write_json,
    write_record,
)

NOW = datetime(2026, 11, 30, 22, 17, 19, tzinfo=UTC)
RECORD = Preflight(at=NOW, checks=())


def result(outcome, *, attempt=1, index=0, task="task", arm="arm", reason=None):
    return Result(
        run_id="run",
        key=TrialKey(task_digest="t", arm_digest="a", index=index),
        task_id=task,
        arm=arm,
        attempt=attempt,
        outcome=outcome,
        reason=reason,
        started_at=NOW,
        finished_at=NOW,
    )


def commit(run, outcome, *, task="task", arm="arm", index=0, reason=None):
    folder = run.next_attempt(run.trial_folder(task, arm, index))
    number = int(folder.name[-2:])
    committed = result(outcome, attempt=number, index=index, task=task, arm=arm, reason=reason)
    write_record(folder / "result.json", committed)
    return committed


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return create_run(tmp_path, "demo", NOW)


def test_a_record_comes_back_as_it_went(tmp_path: Path) -> None:
    write_record(tmp_path / "preflight.json", RECORD)
    assert read_record(tmp_path / "preflight.json", Preflight) == RECORD
    write_json(tmp_path / "plan.json", {"name": "Grüße"})
    assert read_json(tmp_path / "plan.json") == {"name": "Grüße"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan.json", "preflight.json"]


def test_others_may_read_what_one_wrote(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_record(tmp_path / "record.json", RECORD)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "record.json").stat().st_mode) == 0o644


def test_missing_is_none_and_damaged_is_said(tmp_path: Path) -> None:
    path = tmp_path / "preflight.json"
    assert read_record(path, Preflight) is None
    write_record(path, RECORD)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-9], b"\x00" * len(whole), b"\xff\xfe", b"[]"):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=r"preflight\.json is no Preflight"):
            read_record(path, Preflight)
    path.write_text('{"at": "2026-11-30T00:00:00Z", "checks": [], "schema_version": 2}')
    with pytest.raises(StoreError, match="schema_version: Input should be 1"):
        read_record(path, Preflight)
    with pytest.raises(StoreError, match="cannot be read: Is a directory"):
        read_record(tmp_path, Preflight)
    with pytest.raises(StoreError, match="cannot be read"):
        read_json(tmp_path / "nothing.json")


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_record(path, RECORD)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def lines(path: Path) -> list[Event]:
    return list(read_lines(path, Event))


@settings(deadline=None)
@given(cut=st.integers(0, 400))
def test_a_log_cut_anywhere_gives_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    events = [Event(at=NOW, elapsed_seconds=n, kind=f"é{n}") for n in range(4)]
    with path.open("ab") as file:
        for event in events:
            append_line(file, event)
    data = path.read_bytes()
    path.write_bytes(data[:cut])
    assert lines(path) == events[: data[:cut].count(b"\n")]


def test_damage_in_the_middle_of_a_log_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    good = Event(at=NOW, elapsed_seconds=0, kind="phase").model_dump_json()
    path.write_text(f"{good}\n{good[:20]}\n{good}\n")
    with pytest.raises(StoreError, match=r"events\.jsonl, line 2: "):
        lines(path)
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        lines(tmp_path / "nothing.jsonl")


def test_half_a_character_from_a_model_stops_nothing(tmp_path: Path) -> None:
    """A model may write an escape that is no character; it must not end the attempt."""
    arguments = json.loads('{"command": "echo \\ud83d"}')
    call = ToolCall(call_id="1", name="bash", arguments=arguments, observation="\udcff")
    step = Step(number=1, at=NOW, message="\ud83d", tool_calls=(call,))
    with AttemptLog(tmp_path) as log:
        log.step(step)
        log.event("file", "\udcff.txt", name="\udcff")
    (back,) = read_lines(tmp_path / "agent" / "steps.jsonl", Step)
    assert back.tool_calls[0].arguments == {"command": "echo ?"}
    assert back.message == "?"
    assert lines(tmp_path / "events.jsonl")[0].detail == "?.txt"
    write_json(tmp_path / "plan.json", {"name": "\udcff"})
    assert read_json(tmp_path / "plan.json") == {"name": "?"}


def test_an_attempts_log(tmp_path: Path) -> None:
    with AttemptLog(tmp_path) as log:
        recorder: Recorder = log
        recorder.event("phase", "agent", limit=3.5, sealed=True)
        recorder.step(Step(number=1, at=NOW, message="hello"))
        # It is there at once, for whoever looks on.
        assert len(lines(tmp_path / "events.jsonl")) == 1
        assert len(list(read_lines(tmp_path / "agent" / "steps.jsonl", Step))) == 1
        recorder.event("phase", "verifier")
    first, second = lines(tmp_path / "events.jsonl")
    assert (first.kind, first.detail, first.extra) == (
        "phase",
        "agent",
        {"limit": 3.5, "sealed": True},
    )
    assert first.at.utcoffset() == timedelta(0)
    assert 0 <= first.elapsed_seconds <= second.elapsed_seconds


def test_a_runs_id_says_when_and_what() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    assert new_run_id("kimi vs/current", east).startswith("20261130T221719Z-kimi-vs-current-")
    assert new_run_id("../..", NOW).startswith("20261130T221719Z-run-")
    assert len(new_run_id("x" * 999, NOW)) < 200
    assert len({new_run_id("a", NOW) for _ in range(20)}) > 1


def test_where_things_are(run: RunFolder) -> None:
    inside = [
        (run.spec_path, "spec.yaml"),
        (run.plan_path, "plan.json"),
        (run.environment_path, "environment.json"),
        (run.summary_path, "summary.json"),
        (run.endpoint_folder("kimi"), "endpoints/kimi"),
        (run.trial_folder("org/task", "arm-1", 2), "trials/org__task/arm-1/2"),
    ]
    assert [str(path.relative_to(run.path)) for path, _ in inside] == [name for _, name in inside]


@settings(deadline=None)
@given(st.text(), st.text())
def test_no_name_leads_elsewhere_and_no_two_to_the_same_place(one: str, other: str) -> None:
    run = RunFolder(Path("/runs/x"))
    place = run.endpoint_folder(one)
    assert place.parent == Path("/runs/x/endpoints")
    assert place.name not in ("", ".", "..")
    assert len(place.name) < 150
    safe_already = ("/", "__")
    if one != other and not any(part in one + other for part in safe_already):
        assert place != run.endpoint_folder(other)


@pytest.mark.parametrize("name", ["..", ".", "", ".hidden", "a b", "\n", "\udcff", "x" * 500])
def test_odd_names_make_folders(run: RunFolder, name: str) -> None:
    folder = run.next_attempt(run.trial_folder(name, name, 0))
    assert folder.is_dir()
    assert folder.resolve().is_relative_to(run.path / "trials")


def test_attempts_are_claimed_one_after_another(run: RunFolder) -> None:
    trial = run.trial_folder("task", "arm", 0)
    assert [run.next_attempt(trial).name for _ in range(2)] == ["attempt-01", "attempt-02"]
    (trial / "attempt-99").mkdir()
    assert run.next_attempt(trial).name == "attempt-100"
    assert run.attempts(trial)[-2:] == [trial / "attempt-99", trial / "attempt-100"]


def test_of_many_claimants_each_gets_its_own(run: RunFolder) -> None:
    trial, claimed = run.trial_folder("task", "arm", 0), []
    threads = [
        threading.Thread(target=lambda: claimed.append(run.next_attempt(trial))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == [trial / f"attempt-{n:02}" for n in range(1, 17)]


@pytest.mark.parametrize(
    ("outcomes", "final"),
    [
        (["void", "solved"], 2),
        (["void", "void"], 2),
        (["solved", "cancelled"], 1),
        (["cancelled", "void", "cancelled"], 3),
        (["unsolved", "void", "cancelled"], 1),
        (["unsupported", "void"], 1),
        ([None, "solved", None], 2),
    ],
)
def test_the_final_attempt_is_the_last_that_says_something(
    run: RunFolder, outcomes: list[str | None], final: int
) -> None:
    reasons = {"void": "disk", "unsolved": "wrong", "unsupported": "gpu"}
    for outcome in outcomes:
        if outcome is None:
            run.next_attempt(run.trial_folder("task", "arm", 0))
        else:
            commit(run, outcome, reason=reasons.get(outcome))
    assert [r.attempt for r in run.final_results()] == [final]
    assert len(list(run.results())) == len([o for o in outcomes if o])


def test_trials_come_in_the_order_of_their_numbers(run: RunFolder) -> None:
    for index in (10, 2, 0):
        commit(run, "solved", index=index)
    assert [r.key.index for r in run.results()] == [0, 2, 10]


def test_calls_of_final_attempts_of_one_arm(run: RunFolder) -> None:
    ended = [
        commit(run, "void", reason="endpoint"),
        commit(run, "solved"),
        commit(run, "solved", arm="other"),
        commit(run, "solved", task="without-calls"),
    ]
    for folder, committed in run.results_with_paths():
        if committed.task_id == "task":
            with (folder / "calls.jsonl").open("ab") as file:
                for number in range(1, committed.attempt + 2):
                    append_line(
                        file, Call(number=number, received_at=NOW, dialect="d", path=committed.arm)
                    )
    assert [(c.number, c.path) for c in run.calls_of("arm")] == [(1, "arm"), (2, "arm"), (3, "arm")]
    assert [len(list(run.calls(committed))) for committed in ended] == [2, 3, 2, 0]


HOLDER = """
import sys
from pathlib import Path
from rackbench_results import lock_run
with lock_run(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_one_writer_named_to_the_other_and_gone_with_its_process(run: RunFolder) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"locked\n"
        with (
            pytest.raises(RunLocked, match=rf"in use by process {holder.pid} on .+ since \d{{4}}-"),
            lock_run(run.path),
        ):
            pass
        holder.kill()
    with lock_run(run.path):
        assert f"process {os.getpid()} " in (run.path / "run.lock").read_text()
    with lock_run(run.path):
        pass
