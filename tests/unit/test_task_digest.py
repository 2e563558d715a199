"""Digests: they change with the content, and with nothing else."""

from __future__ import annotations

import hashlib
import os
import py_compile
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_tasks import TaskError, folder_digest, task_digest

names = st.text("abcA.-é ", min_size=1, max_size=6).filter(lambda name: set(name) != {"."})
trees = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map("/".join), st.binary(max_size=50), max_size=6
)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def is_a_tree(files: dict[str, bytes]) -> bool:
    """No file is another's folder."""
    return not any(other.startswith(f"{name}/") for name in files for other in files)


SMALL = {"task.toml": b"", "tests/test.sh": b"echo 1\n", "environment/Dockerfile": b"FROM x\n"}


def test_it_is_what_it_was(tmp_path: Path) -> None:
    """Results of earlier runs are found by it: it must not move with the program."""
    task = write(tmp_path / "a", SMALL)
    (task / "tests" / "test.sh").chmod(0o755)
    (task / "link").symlink_to("task.toml")
    content = (
        b"file 0 22 7\nenvironment/DockerfileFROM x\n"
        b"link 4 9\nlinktask.toml"
        b"file 0 9 0\ntask.toml"
        b"file 1 13 7\ntests/test.shecho 1\n"
    )
    assert task_digest(task) == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert folder_digest(task) == task_digest(task)


def test_place_time_order_and_empty_folders_do_not_count(tmp_path: Path) -> None:
    first = write(tmp_path / "a", SMALL)
    second = write(tmp_path / "deep" / "b", dict(reversed(SMALL.items())))
    (second / "empty").mkdir()
    os.utime(second / "task.toml", (1, 1))
    (second / "task.toml").chmod(0o600)
    assert task_digest(first) == task_digest(second)


@pytest.mark.parametrize(
    "change",
    [
        lambda task: (task / "task.toml").write_bytes(b" "),
        lambda task: (task / "tests" / "test.sh").chmod(0o755),
        lambda task: (task / "task.toml").rename(task / "Task.toml"),
        lambda task: (task / "tests" / "test.sh").unlink(),
        lambda task: (task / "notes.txt~").touch(),
        lambda task: (task / "link").symlink_to("task.toml"),
        lambda task: write(task, {"environment/.git/HEAD": b"ref"}),
        lambda task: write(task, {"tests/__pycache__/only.cpython-311.pyc": b"no source"}),
    ],
)
def test_content_names_and_the_executable_bit_count(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    task = write(tmp_path / "a", SMALL)
    (task / "tests" / "test.sh").chmod(0o644)
    before = task_digest(task)
    change(task)
    assert task_digest(task) != before


def test_bytes_cannot_move_from_one_file_to_the_next(tmp_path: Path) -> None:
    one = write(tmp_path / "1", {"a": b"xfile 0 1 1\nby", "b": b"z"})
    two = write(tmp_path / "2", {"a": b"x", "b": b"yfile 0 1 1\nbz"})
    assert folder_digest(one) != folder_digest(two)


def test_what_python_compiled_does_not_count(tmp_path: Path) -> None:
    task = write(tmp_path / "a", SMALL | {"tests/test_it.py": b"x = 1\n"})
    before = task_digest(task)
    py_compile.compile(str(task / "tests" / "test_it.py"))
    assert (task / "tests" / "__pycache__").is_dir()
    assert task_digest(task) == before


def test_a_repository_around_a_task_does_not_count(tmp_path: Path) -> None:
    task = write(tmp_path / "a", SMALL)
    before = task_digest(task)
    write(task, {".git/HEAD": b"ref: refs/heads/main\n"})
    assert task_digest(task) == before
    shutil.rmtree(task / ".git")
    write(task, {".git": b"gitdir: /elsewhere\n"})
    assert task_digest(task) == before
    assert folder_digest(task) != before


def test_links_count_by_their_target(tmp_path: Path) -> None:
    task = write(tmp_path / "a", SMALL)
    link = task / "link"
    link.symlink_to("tests/test.sh")
    before = task_digest(task)
    link.unlink()
    link.symlink_to("tests/absent.sh")
    assert task_digest(task) != before


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    task = write(tmp_path / "a", SMALL)
    (task / "here").symlink_to(".")
    (task / "one").symlink_to("two")
    (task / "two").symlink_to("one")
    assert task_digest(task) == task_digest(task)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../other", "tests/../../other", "tests/way/../other"]
)
def test_links_out_of_a_task_are_refused(tmp_path: Path, target: str) -> None:
    task = write(tmp_path / "a", SMALL)
    write(tmp_path / "other", {"secret": b"x"})
    (task / "tests" / "way").symlink_to("..")
    (task / "link").symlink_to(target)
    with pytest.raises(TaskError) as caught:
        task_digest(task)
    (problem,) = caught.value.problems
    assert str(task / "link") in problem
    assert "outside the task" in problem
    folder_digest(task)


def test_a_task_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    task = write(tmp_path / "a", SMALL)
    (task / "link").symlink_to("task.toml")
    (tmp_path / "b").symlink_to(task)
    assert task_digest(tmp_path / "b") == task_digest(task)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    task = write(tmp_path / "a", SMALL)
    os.mkfifo(task / "pipe")
    with pytest.raises(TaskError, match="pipe: is no file"):
        task_digest(task)
    (task / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(task / "socket"))
        with pytest.raises(TaskError, match="socket: is no file"):
            folder_digest(task)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="absent: cannot be read: No such file"):
        task_digest(tmp_path / "absent")


def test_names_need_not_be_text(tmp_path: Path) -> None:
    task = write(tmp_path / "a", SMALL)
    before = folder_digest(task)
    Path(os.fsdecode(os.fsencode(task) + b"/\xff\xfe")).write_bytes(b"x")
    assert folder_digest(task) != before


def test_a_file_larger_than_one_piece(tmp_path: Path) -> None:
    content = bytes(3 * 1024 * 1024 + 7)
    one = write(tmp_path / "1", {"big": content})
    two = write(tmp_path / "2", {"big": content[:-1] + b"\1"})
    assert folder_digest(one) == folder_digest(one)
    assert folder_digest(one) != folder_digest(two)


@settings(deadline=None, max_examples=50)
@given(trees.filter(is_a_tree), trees.filter(is_a_tree))
def test_equal_trees_and_only_they_have_equal_digests(
    one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        first = write(Path(scratch) / "1", one)
        second = write(Path(scratch) / "2", two)
        third = write(Path(scratch) / "3", one)
        assert folder_digest(first) == folder_digest(third)
        assert (folder_digest(first) == folder_digest(second)) == (one == two)
