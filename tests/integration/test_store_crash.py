"""Writers killed with -9 at any moment: a reader sees whole records, or none."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rackbench_results import Event, Preflight, StoreError, read_lines, read_record

RECORDS = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from rackbench_results import Preflight, PreflightCheck, write_record
path, number = Path(sys.argv[1]), 0
while True:
    number += 1
    checks = [PreflightCheck(name=str(number), state="pass", detail="x" * 300)] * (number % 90 + 1)
    write_record(path, Preflight(at=datetime.now(UTC), checks=tuple(checks)))
    print(number, flush=True)
"""

LINES = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from rackbench_results import Event, append_line
with Path(sys.argv[1]).open("ab") as file:
    number = 0
    while True:
        number += 1
        detail = str(number) * (1 + number * 7919 % 30000)
        append_line(file, Event(at=datetime.now(UTC), elapsed_seconds=number, kind="x", detail=detail))
        print(number, flush=True)
"""


def killed_after(program: str, path: Path, writes: int) -> int:
    """Number of the last write that the writer had seen finished when it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        for _ in range(writes):
            writer.stdout.readline()
        writer.kill()
        rest = writer.stdout.read().splitlines()
    assert writer.returncode == -signal.SIGKILL
    return int(rest[-1]) if rest else writes


@pytest.mark.parametrize("writes", [1, 7, 30, 61, 120])
def test_a_record_is_whole_whenever_its_writer_dies(tmp_path: Path, writes: int) -> None:
    path = tmp_path / "preflight.json"
    last = killed_after(RECORDS, path, writes)
    found = read_record(path, Preflight)
    assert found is not None
    number = int(found.checks[0].name)
    # What was finished is there; at most one more was under way.
    assert last <= number <= last + 1
    assert len(found.checks) == number % 90 + 1


@pytest.mark.parametrize("writes", [1, 20, 75, 160, 300])
def test_a_log_is_whole_up_to_where_its_writer_died(tmp_path: Path, writes: int) -> None:
    path = tmp_path / "events.jsonl"
    last = killed_after(LINES, path, writes)
    found = list(read_lines(path, Event))
    assert [event.elapsed_seconds for event in found] == list(range(1, len(found) + 1))
    assert last <= len(found) <= last + 1
    assert all(event.detail.startswith(str(int(event.elapsed_seconds))) for event in found)


def test_readers_beside_a_writer_see_whole_records_only(tmp_path: Path) -> None:
    path, reads, seen = tmp_path / "preflight.json", 0, set()
    with subprocess.Popen(
        [sys.executable, "-c", RECORDS, str(path)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout
        writer.stdout.readline()
        # Reading is faster than a write that is flushed to the disk: go on until writes were met.
        while reads < 300 or len(seen) < 20:
            assert writer.poll() is None, "the writer ended"
            reads += 1
            try:
                found = read_record(path, Preflight)
            except StoreError as error:
                pytest.fail(f"saw half a record: {error}")
            assert found is not None
            number = int(found.checks[0].name)
            assert len(found.checks) == number % 90 + 1
            seen.add(number)
        writer.kill()
    assert len(seen) > 1
