"""Repositories as sources of tasks: made here, served as files and by git's own server."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rackbench_tasks import Places, Source, Suite, TaskError, load_sources, load_suite
from rackbench_tasks.sources.git import shown_url

TASK = {
    "task.toml": "[environment]\nmemory_mb = 256\n",
    "instruction.md": "Fix it.\n",
    "environment/Dockerfile": "FROM base\n",
    "tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
}


def write_task(folder: Path, **changed: str) -> Path:
    for name, text in {**TASK, **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "tests" / "test.sh").chmod(0o755)
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "cache" / "sources")


class Upstream:
    """A repository that has tasks, a large file beside them, and a history."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=main")
        (folder / "weights.bin").write_bytes(os.urandom(300_000))
        write_task(folder / "tasks" / "apple")
        write_task(folder / "tasks" / "banana")
        (folder / "tasks" / "apple" / "link").symlink_to("instruction.md")
        write_task(folder / "other" / "cherry")
        self.first = self.commit("First")
        git(folder, "tag", "--annotate", "v1.0", "--message", "One")
        (folder / "tasks" / "apple" / "instruction.md").write_text("Fix it well.\n")
        self.second = self.commit("Second")
        git(folder, "tag", "v1.1")

    def commit(self, message: str) -> str:
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", message)
        return git(self.folder, "rev-parse", "HEAD")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def load(places: Places, *sources: Any, beside: Path | None = None) -> Suite:
    return load_sources(
        [Source.model_validate(source) for source in sources],
        beside=beside or places.cache,
        strict=True,
        host_env={},
        places=places,
    )


def problem_of(places: Places, *sources: Any, beside: Path | None = None) -> str:
    with pytest.raises(TaskError) as caught:
        load(places, *sources, beside=beside)
    (problem,) = caught.value.problems
    return problem


def names(suite: Suite) -> list[str]:
    return [task.name for task in suite.tasks]


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_a_tag_of_a_repository(upstream: Upstream, places: Places, scheme: str) -> None:
    source = {"git": f"{scheme}{upstream.folder}", "ref": "v1.0", "path": "tasks"}
    suite = load(places, source)
    assert names(suite) == ["apple", "banana"]
    origin = suite.origins["apple"]
    assert (origin.kind, origin.ref, origin.commit) == ("git", "v1.0", upstream.first)
    assert (origin.source, origin.path) == (f"{scheme}{upstream.folder}", "tasks/apple")
    root = suite.tasks[0].folder.parents[1]
    assert [entry.name for entry in root.iterdir()] == ["tasks"]


def test_what_is_fetched_is_what_was_committed(upstream: Upstream, places: Places) -> None:
    suite = load(places, {"git": upstream.url, "ref": upstream.second, "path": "tasks"})
    local = load_suite(upstream.folder / "tasks", strict=True, host_env={}, places=places)
    assert suite.digest == local.digest
    assert (suite.tasks[0].folder / "link").is_symlink()
    assert local.origins["apple"].kind == "folder"
    assert local.origins["apple"].path == "apple"


def test_settings_of_the_machine_do_not_change_files(
    upstream: Upstream, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text("[core]\n\tautocrlf = true\n\tsymlinks = false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    suite = load(places, {"git": upstream.url, "ref": upstream.second, "path": "tasks"})
    monkeypatch.delenv("GIT_DIR")
    local = load_suite(upstream.folder / "tasks", strict=True, host_env={}, places=places)
    assert suite.digest == local.digest


def test_one_task_a_whole_repository_and_a_path_with_odd_letters(
    upstream: Upstream, places: Places
) -> None:
    write_task(upstream.folder / "odd [1]*" / "dill weed")
    write_task(upstream.folder / "odd 1" / "other")
    commit = upstream.commit("Third")
    one = load(places, {"git": upstream.url, "ref": "v1.1", "path": "tasks/apple"})
    assert (names(one), one.origins["apple"].path) == (["apple"], "tasks/apple")
    odd = load(places, {"git": upstream.url, "ref": commit, "path": "odd [1]*/"})
    assert names(odd) == ["dill-weed"]
    assert "did you mean" in problem_of(places, {"git": upstream.url, "ref": commit})


def test_a_suite_file_of_a_repository(upstream: Upstream, places: Places) -> None:
    (upstream.folder / "suites").mkdir()
    (upstream.folder / "suites" / "all.yaml").write_text(
        "name: All\ntasks: [../tasks/banana, {path: ../other}]\n"
    )
    commit = upstream.commit("Third")
    suite = load(places, {"git": upstream.url, "ref": commit, "path": "suites/all.yaml"})
    assert names(suite) == ["banana", "cherry"]
    assert suite.origins["cherry"].commit == commit
    assert suite.origins["cherry"].path == "other/cherry"


def test_a_suite_file_of_a_repository_stays_inside(upstream: Upstream, places: Places) -> None:
    (upstream.folder / "all.yaml").write_text(f"tasks: [{upstream.folder}/tasks]\n")
    commit = upstream.commit("Third")
    problem = problem_of(places, {"git": upstream.url, "ref": commit, "path": "all.yaml"})
    assert "lies outside" in problem


def test_a_folder_that_links_out_of_a_repository(upstream: Upstream, places: Places) -> None:
    elsewhere = write_task(upstream.folder.parent / "elsewhere")
    (upstream.folder / "tasks" / "evil").symlink_to(elsewhere)
    commit = upstream.commit("Third")
    problem = problem_of(places, {"git": upstream.url, "ref": commit, "path": "tasks"})
    assert "links to" in problem
    assert "outside" in problem


def test_nothing_is_asked_for_twice(upstream: Upstream, places: Places) -> None:
    sources = [
        {"git": upstream.url, "ref": "v1.0", "path": "tasks"},
        {"git": upstream.url, "ref": upstream.second, "path": "other"},
    ]
    before = load(places, *sources)
    upstream.folder.rename(upstream.folder.with_name("gone"))
    assert load(places, *sources) == before
    assert "cannot be fetched" in problem_of(places, {**sources[1], "path": "tasks"})


def test_no_history_and_no_other_file_is_transferred(upstream: Upstream, places: Places) -> None:
    trace = places.cache.parent.parent / "trace"
    os.environ["GIT_TRACE_PACKET"] = str(trace)
    try:
        load(places, {"git": upstream.url, "ref": "v1.1", "path": "tasks"})
    finally:
        del os.environ["GIT_TRACE_PACKET"]
    wanted = {line.split()[-1] for line in trace.read_text().splitlines() if "> want " in line}
    weights = git(upstream.folder, "rev-parse", "HEAD:weights.bin")
    apple = git(upstream.folder, "rev-parse", "HEAD:tasks/apple/instruction.md")
    assert apple in wanted
    assert weights not in wanted
    assert "deepen 1" in trace.read_text()
    assert "filter blob:none" in trace.read_text()


def test_a_tag_that_has_moved(upstream: Upstream, places: Places) -> None:
    source = {"git": upstream.url, "ref": "v1.1", "path": "tasks"}
    before = load(places, source)
    git(upstream.folder, "tag", "--force", "v1.1", upstream.first)
    assert load(places, source) == before
    problem = problem_of(places, {**source, "path": "other"})
    assert f"the tag has moved: it was {upstream.second}, and is {upstream.first} now" in problem
    moved = load(places, {**source, "moving": True})
    assert moved.origins["apple"].commit == upstream.first


def test_a_branch_moves(upstream: Upstream, places: Places) -> None:
    source = {"git": upstream.url, "ref": "main", "path": "tasks"}
    problem = problem_of(places, source)
    assert "is a branch, which moves" in problem
    assert upstream.second in problem
    source["moving"] = True
    assert load(places, source).origins["apple"].commit == upstream.second
    (upstream.folder / "tasks" / "apple" / "instruction.md").write_text("Again.\n")
    third = upstream.commit("Third")
    assert load(places, source).origins["apple"].commit == third


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("v1.2", "there is no tag 'v1.2'; did you mean 'v1.1'?"),
        ("0123abcd", "of a commit, give all digits"),
        ("0123456789" * 4, "not our ref"),
    ],
)
def test_a_ref_that_is_not_there(upstream: Upstream, places: Places, ref: str, said: str) -> None:
    problem = problem_of(places, {"git": upstream.url, "ref": ref, "path": "tasks"})
    assert said in problem
    assert f"try `git ls-remote {upstream.url}`" in problem
    assert list(places.cache.glob(".part-*")) == []


def test_a_path_that_is_not_there(upstream: Upstream, places: Places) -> None:
    problem = problem_of(places, {"git": upstream.url, "ref": "v1.0", "path": "task/apple"})
    assert "has no task/apple; there is: other, tasks, weights.bin" in problem
    problem = problem_of(places, {"git": upstream.url, "ref": "v1.0", "path": "tasks/aple"})
    assert "has no tasks/aple; there is: tasks/apple, tasks/banana" in problem


def test_the_number_of_a_tag_is_no_commit(upstream: Upstream, places: Places) -> None:
    number = git(upstream.folder, "rev-parse", "v1.0")
    problem = problem_of(places, {"git": upstream.url, "ref": number, "path": "tasks"})
    assert f"{number} is a tag, and no commit" in problem


def test_a_mirror_is_asked_first(upstream: Upstream, places: Places, tmp_path: Path) -> None:
    mirror = tmp_path / "mirrors" / "git.example.org" / "team" / "tasks.git"
    git(tmp_path, "clone", "--quiet", "--mirror", upstream.url, str(mirror))
    source = {"git": "https://git.example.org/team/tasks", "ref": "v1.0", "path": "tasks"}
    suite = load(places, {**source, "mirror": "../../mirrors/git.example.org/team/tasks.git"})
    assert suite.origins["apple"].source == source["git"]
    own = Places(tmp_path / "other", tmp_path / "mirrors")
    assert load(own, source).origins == suite.origins


def test_a_mirror_that_is_behind(upstream: Upstream, places: Places, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--mirror", upstream.url, str(tmp_path / "mirror.git"))
    git(upstream.folder, "tag", "v2.0")
    source = {"git": upstream.url, "ref": "v2.0", "path": "tasks"}
    assert names(load(places, {**source, "mirror": str(tmp_path / "mirror.git")})) != []
    problem = problem_of(places, {**source, "ref": "v3.0", "mirror": str(tmp_path / "mirror.git")})
    assert problem.count("there is no tag 'v3.0'") == 2


@pytest.fixture
def daemon(upstream: Upstream) -> Iterator[str]:
    """git's own server as it is set up by default: it offers no filters."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}"]
    command += ["--export-all", f"--base-path={upstream.folder.parent}"]
    url = f"git://127.0.0.1:{port}/upstream"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as server:
        try:
            while subprocess.run(
                ["git", "ls-remote", url], check=False, capture_output=True
            ).returncode:
                time.sleep(0.1)
            yield url
        finally:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.mark.parametrize("protocol", ["0", "2"])
def test_a_server_without_filters(
    upstream: Upstream,
    daemon: str,
    places: Places,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In its old protocol it gives no commit that is not the tip of something either."""
    git(upstream.folder, "tag", "--delete", "v1.0")
    for name, value in {"COUNT": "1", "KEY_0": "protocol.version", "VALUE_0": protocol}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    for ref, commit in ((upstream.first, upstream.first), ("v1.1", upstream.second)):
        suite = load(places, {"git": daemon, "ref": ref, "path": "tasks"})
        assert (names(suite), suite.origins["apple"].commit) == (["apple", "banana"], commit)
    missing = {"git": daemon, "ref": "0123456789" * 4, "path": "tasks"}
    assert "cannot be fetched: from git://127.0.0.1" in problem_of(places, missing)


def test_a_server_of_plain_files(upstream: Upstream, places: Places, tmp_path: Path) -> None:
    """HTTP without a git program behind it gives neither single commits nor parts of one."""
    git(tmp_path, "clone", "--quiet", "--mirror", upstream.url, str(tmp_path / "www" / "tasks.git"))
    git(tmp_path / "www" / "tasks.git", "update-server-info")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "www"))

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://me:secret@127.0.0.1:{server.server_port}/tasks.git"
        for ref in (upstream.first, "v1.1"):
            suite = load(places, {"git": url, "ref": ref, "path": "tasks"})
            assert names(suite) == ["apple", "banana"]
            assert "secret" not in str(suite.origins)
        missing = problem_of(places, {"git": url, "ref": "0" * 39 + "1", "path": "tasks"})
        assert "secret" not in missing
        server.shutdown()


def test_a_server_behind_ssh(
    upstream: Upstream, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh").write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(tmp_path / "ssh"))
    for number, url in enumerate(
        (f"ssh://git@host{upstream.folder}", f"git@host:{upstream.folder}")
    ):
        own = Places(places.cache / str(number))
        suite = load(own, {"git": url, "ref": "v1.0", "path": "tasks"})
        assert suite.origins["apple"].source == url
        assert suite.origins["apple"].commit == upstream.first


def test_a_server_that_cannot_be_reached(places: Places) -> None:
    source = {"git": "http://user:secret@127.0.0.1:9/tasks.git", "ref": "v1", "path": "tasks"}
    problem = problem_of(places, source)
    assert "secret" not in problem
    assert "http://127.0.0.1:9/tasks.git" in problem
    assert "name a local copy by `mirror` or RACKBENCH_GIT_MIRRORS" in problem


def test_addresses_are_shown_without_credentials() -> None:
    assert shown_url("https://me:token@host/a.git") == "https://host/a.git"
    assert shown_url("https://token@host/a.git") == "https://host/a.git"
    assert shown_url("ssh://git:secret@host/a.git") == "ssh://git@host/a.git"
    assert shown_url("git@host:team/a.git") == "git@host:team/a.git"


def test_submodules_and_pointers_are_not_passed_over(upstream: Upstream, places: Places) -> None:
    with_module = upstream.folder / "tasks" / "apple" / "vendor"
    git(upstream.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        upstream.url, str(with_module.relative_to(upstream.folder)))  # fmt: skip
    commit = upstream.commit("Third")
    source = {"git": upstream.url, "ref": commit, "path": "tasks"}
    assert "tasks/apple/vendor is a submodule" in problem_of(places, source)
    assert names(load(places, {**source, "path": "tasks/banana"})) == ["banana"]
    (upstream.folder / "other" / "cherry" / "data.bin").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    )
    commit = upstream.commit("Fourth")
    problem = problem_of(places, {"git": upstream.url, "ref": commit, "path": "other"})
    assert "other/cherry/data.bin is kept in a large file storage" in problem


def test_a_checkout_that_was_changed(upstream: Upstream, places: Places) -> None:
    source = {"git": upstream.url, "ref": "v1.0", "path": "tasks"}
    (load(places, source).tasks[0].folder / "instruction.md").write_text("Easier.\n")
    assert "was changed since it was fetched" in problem_of(places, source)


def is_running(process_id: int) -> bool:
    """Whether a process works still; one that nobody has asked for its end does not."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_ending_us_ends_git(tmp_path: Path, upstream: Upstream) -> None:
    """A server that never answers; the interrupt goes to us alone, as `kill -INT` sends it."""
    (tmp_path / "slow").write_text("#!/bin/sh\necho $$ >>$0.pid\nexec sleep 300\n")
    (tmp_path / "slow").chmod(0o755)
    program = (
        "import signal\n"
        # A test run in the background is started with interrupts ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path; from rackbench_tasks import *\n"
        "load_sources([Source(git='ssh://host/x', ref='v1')], beside=Path('/'), strict=True,\n"
        f"  host_env={{}}, places=Places(Path('{tmp_path}/cache')))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "GIT_SSH_COMMAND": str(tmp_path / "slow")},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        mark = tmp_path / "slow.pid"
        for _ in range(600):
            if mark.exists() and mark.read_text():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert out == b""
    assert b"KeyboardInterrupt" in errors
    while is_running(int(mark.read_text())):
        time.sleep(0.05)
