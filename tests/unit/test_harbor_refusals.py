"""Harbor's format: what is refused, and in which words."""

from __future__ import annotations

import re
import shutil
import string
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_tasks import Task, TaskError
from rackbench_tasks.formats.harbor import Harbor
from rackbench_tasks.formats.harbor_schema import LIMITS, RawTask
from rackbench_tasks.keys import unknown_keys


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task without a fault."""
    task = tmp_path / "fix-it"
    for name, text in {
        "task.toml": "",
        "instruction.md": "Fix it.\n",
        "environment/Dockerfile": "FROM base\n",
        "tests/test.sh": "echo 1 >/logs/verifier/reward.txt\n",
        "steps/a/instruction.md": "Only with [[steps]].\n",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    return task


def load(folder: Path, toml: str | bytes | None = None, *, strict: bool = False) -> Task:
    if toml is not None:
        content = toml if isinstance(toml, bytes) else toml.encode()
        (folder / "task.toml").write_bytes(content)
    return Harbor().load(folder, strict=strict, host_env={})


def problems_of(
    folder: Path, toml: str | bytes | None = None, *, strict: bool = False
) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load(folder, toml, strict=strict)
    problems = caught.value.problems
    assert str(caught.value) == "\n".join(problems)
    assert all(str(folder) in problem and "\n" not in problem for problem in problems)
    return [
        re.sub(r"(task\.toml):\d+:", r"\1:", line.replace(str(folder), "…")) for line in problems
    ]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (
            '[agent]\ntimeout_sec = "600"',
            "'agent.timeout_sec' is \"600\" (text); expected a number",
        ),
        ("[agent]\ntimeout_sec = true", "'agent.timeout_sec' is true; expected a number"),
        ("[agent]\ntimeout_sec = 0", "'agent.timeout_sec' is 0; expected a number above 0"),
        ("[agent]\ntimeout_sec = inf", "'agent.timeout_sec' is inf; expected a finite number"),
        (
            "[verifier]\ntimeout_sec = nan",
            "'verifier.timeout_sec' is nan; expected a finite number",
        ),
        ("[environment]\ncpus = -1", "'environment.cpus' is -1; expected a number above 0"),
        (
            "[environment]\nmemory_mb = 1.5",
            "'environment.memory_mb' is 1.5; expected a whole number",
        ),
        (
            '[environment]\nmemory_mb = "2G"',
            "'environment.memory_mb' is \"2G\" (text); expected a whole number",
        ),
        (
            "[environment]\ngpus = -1",
            "'environment.gpus' is -1; expected a number of at least 0",
        ),
        (
            '[environment]\nallow_internet = "no"',
            "'environment.allow_internet' is \"no\" (text); expected true or false",
        ),
        (
            '[environment]\nnetwork_mode = "none"',
            (
                "'environment.network_mode' is \"none\" (text); "
                "expected 'public', 'no-network' or 'allowlist'"
            ),
        ),
        ("agent = 5", "'agent' is 5; expected a table"),
        ("[[agent]]\ntimeout_sec = 5", "'agent' is a list; expected a table"),
        (
            "[environment.env]\nPORT = 8080",
            "'environment.env.PORT' is 8080; expected text",
        ),
        (
            '[environment]\nworkdir = "app"',
            "'environment.workdir' is \"app\" (text); expected an absolute path",
        ),
        ("[agent]\nuser = -1", "'agent.user' is -1; expected text"),
        ('[agent]\nuser = ""', "'agent.user' is \"\" (text); expected text that is not empty"),
        ("[environment.healthcheck]\nretries = 2", "'environment.healthcheck.command' is missing"),
        ("[[steps]]\nmin_reward = 1", "'steps.0.name' is missing"),
        ('artifacts = "/app"', "'artifacts' is \"/app\" (text); expected a list"),
        ("artifacts = [5]", "'artifacts.0' is 5; expected a table"),
        (
            "[task]\nauthors = [{name = 1979-05-27}]",
            "'task.authors.0.name' is a date; expected text",
        ),
    ],
)
def test_a_wrong_value_is_one_clear_line(folder: Path, toml: str, said: str) -> None:
    assert problems_of(folder, toml) == [f"…/task.toml: {said}"]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('schema_version = "99.7"', "'schema_version' is \"99.7\" (text); known are"),
        ('version = "3.0"', "'version' is \"3.0\" (text); known are"),
        ("version = 1.0", "'version' is 1.0; known are"),
        ('schema_version = "2.0"\nversion = "1.0"', "'schema_version' is \"2.0\""),
    ],
)
def test_other_versions_are_refused_before_all_else(folder: Path, toml: str, said: str) -> None:
    (problem,) = problems_of(folder, f"{toml}\n[agent]\ntimeout_secs = true\n")
    assert said in problem
    if "known" in said:
        assert problem.endswith('"1.0", "1.1", "1.2", "1.3", "1.4"')


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[agent]\ntimeout_secs = 5", "'agent.timeout_secs' .*; did you mean 'timeout_sec'"),
        ("[agent]\ntimout_sec = 5", "'agent.timout_sec' .*; did you mean 'timeout_sec'"),
        ("[agent]\ntime_sec = 5", "did you mean 'timeout_sec'"),
        ("[agent]\ntimeoutSeconds = 5", "did you mean 'timeout_sec'"),
        ("[verifier]\ntimeout_seconds = 5", "did you mean 'timeout_sec'"),
        ("[environment]\ncpu = 1", "did you mean 'cpus'"),
        ("[environment]\ncups = 1", "did you mean 'cpus'"),
        ("[environment]\nmemory_gb = 1", "did you mean 'memory_mb'"),
        ("[environment]\nmemroy_mb = 1", "did you mean 'memory_mb'"),
        ("[environment]\nmax_ram = 1", "'environment.max_ram'"),
        ("[environment]\nstorage_gb = 1", "did you mean 'storage_mb'"),
        ("[environment]\nnetwork-mode = 'no-network'", "did you mean 'network_mode'"),
        ("[environment]\nallowinternet = false", "did you mean 'allow_internet'"),
        ("[environment]\ntimeout_sec = 5", r"it belongs in \[agent\] or in \[verifier\]"),
        ("[agent]\ncpus = 5", r"it belongs in \[environment\]"),
        ("timeout_sec = 5", r"it belongs in \[agent\] or in \[verifier\]"),
        ("[task]\ntimeout = 5", r"did you mean 'timeout_sec' in \[agent\] or in \[verifier\]"),
        ("[agnet]\ntimeout_sec = 5", "'agnet.timeout_sec' .* no table 'agnet'"),
        ("[agents]\ntimeout = 5", "'agents.timeout' .* no table 'agents'"),
        ("[limits.agent]\ntimeout_sec = 5", "'limits.agent.timeout_sec' .* no table"),
        ('[[steps]]\nname = "a"\ntimeout_sec = 5', r"'steps.0.timeout_sec' .*\[agent\]"),
        ('[[steps]]\nname = "a"\nagent = {timeout = 5}', "'steps.0.agent.timeout' .*'timeout_sec'"),
    ],
)
def test_a_misspelt_limit_is_refused_without_strict(folder: Path, toml: str, said: str) -> None:
    problems = problems_of(folder, toml)
    assert all("meant as a limit, and would not hold" in problem for problem in problems)
    with pytest.raises(TaskError, match=said):
        load(folder)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (
            'difficulty = "hard"',
            "unknown key 'difficulty' is ignored; known here: agent, artifacts",
        ),
        ('[agent]\nname = "x"', r"unknown key 'agent.name' is ignored; it belongs in \[task\]"),
        ("[verifier]\nartifacts = []", "'verifier.artifacts' .*; it belongs at the top level"),
        ('[environment]\nimage = "x"', "'environment.image' .*; did you mean 'docker_image'"),
        ('[taks]\nname = "a/b"', "'taks' .*; did you mean 'task'"),
        ("[[sources]]\nurl = 'x'", "'sources' .*; did you mean 'source'"),
        ("[environment.healthcheck]\ncommand = 'x'\nretry = 1", "did you mean 'retries'"),
        ('[[steps]]\nname = "a"\ndependencies = []', "unknown key 'steps.0.dependencies'"),
        ('["odd\\nkey"]', r"unknown key 'odd\\nkey' is ignored"),
    ],
)
def test_another_unknown_key_is_a_warning_and_with_strict_a_refusal(
    folder: Path, toml: str, said: str
) -> None:
    warnings = load(folder, toml).warnings
    assert len(warnings) == 1
    assert "\n" not in warnings[0]
    assert re.search(said, warnings[0])
    (problem,) = problems_of(folder, strict=True)
    assert problem.startswith("…/task.toml: unknown key ")


def test_strict_lists_all_unknown_keys(folder: Path) -> None:
    toml = "one = 1\n[agent]\ntwo = 2\n[environment]\nthree = 3\ntimeout = 4\n"
    problems = problems_of(folder, toml, strict=True)
    assert [problem.split("'")[1] for problem in problems] == [
        *("one", "agent.two", "environment.three", "environment.timeout"),
    ]


def test_everything_is_told_at_once(folder: Path) -> None:
    (folder / "instruction.md").unlink()
    shutil.rmtree(folder / "tests")
    (folder / "environment" / "Dockerfile").unlink()
    toml = (
        '[task]\nname = "a b"\n[agent]\ntimeout = 1\n'
        '[environment]\nmemory = "lots"\nenv = {A = "${NOT_SET}"}\n'
    )
    assert [problem[:60] for problem in problems_of(folder, toml)] == [
        "…/task.toml: unknown key 'agent.timeout' is meant as a limit"[:60],
        "…/task.toml: 'environment.memory' is 'lots'; expected a size such"[:60],
        "…/task.toml: 'environment.env.A' needs the variable NOT_SET, which"[:60],
        "…/task.toml: 'task.name' is \"a b\" (text); expected letters, digits"[:60],
        "there is no …/instruction.md",
        "…: there is no tests/test.sh, which has to judge the result",
        "…: no environment/Dockerfile and no [environment] docker_image in"[:60],
    ]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('memory = "2G"\nmemory_mb = 512', r"'environment.memory' is '2G' and 'memory_mb' is 512"),
        *(
            (f'storage = "{size}"', 'expected a size such as "512M"')
            for size in ("2", "2GB", "-1G", "0G", "1e3M", "")
        ),
        ('allow_internet = true\nnetwork_mode = "no-network"', "allow_internet' contradicts"),
        ('allow_internet = false\nnetwork_mode = "public"', "allow_internet' contradicts"),
        ('network_mode = "public"\nallowed_hosts = ["a.b"]', 'hosts need "allowlist"'),
        ('allowed_hosts = ["https://a.b"]', "'environment.allowed_hosts' holds 'https://a.b'"),
        ('allowed_hosts = ["a.b:443"]', "without scheme or port"),
        ('allowed_hosts = [" "]', "expected a host name"),
        ('env = {"A=B" = "x"}', "'environment.env.A=B' is no name of a variable"),
        ('env = {A = "\\u0000"}', "holds a NUL"),
        ('env = {A = "${B}"}', "needs the variable B, which is not set; set it, or write"),
    ],
)
def test_values_that_contradict_or_mean_nothing(folder: Path, toml: str, said: str) -> None:
    problems = problems_of(folder, f"[environment]\n{toml}\n")
    assert len(problems) == 1
    assert said in problems[0]


@pytest.mark.parametrize("name", ["", "a b", "../up", "a//b", "/a", "a/", "a/..", ".a", "-a", "ü"])
def test_unsafe_ids(folder: Path, name: str) -> None:
    (problem,) = problems_of(folder, f'[task]\nname = "{name}"\n')
    assert "'task.name' is" in problem


def test_a_folder_without_a_usable_name(folder: Path) -> None:
    renamed = folder.rename(folder.parent / "题")
    assert "no letter or digit in the folder's name" in problems_of(renamed)[0]


@pytest.mark.parametrize("text", ["", " \n", "<!-- canary -->\n"])
def test_an_empty_instruction(folder: Path, text: str) -> None:
    (folder / "instruction.md").write_text(text)
    assert problems_of(folder) == [
        "…: instruction.md is empty; it has to tell the agent what to do"
    ]


@pytest.mark.parametrize("name", ["instruction.md", "task.toml"])
def test_files_that_are_not_utf_8(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"# na\xefve\n")
    assert problems_of(folder) == [f"…/{name}: is not UTF-8 (byte 0xef at position 4); convert it"]


@pytest.mark.parametrize("name", ["instruction.md", "task.toml"])
def test_folders_in_place_of_files(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    assert problems_of(folder) == [f"…/{name}: cannot be read: Is a directory"]


@pytest.mark.parametrize(
    "toml",
    ["[agent\n", "[verifier]\n[verifier]\n", "a = 1979-99-99\n", "a = " + "[" * 5_000, "\x00"],
)
def test_what_is_not_toml(folder: Path, toml: str) -> None:
    (problem,) = problems_of(folder, toml)
    assert problem.startswith("…/task.toml: is not TOML: ")


def test_a_huge_number_is_not_written_out(folder: Path) -> None:
    (problem,) = problems_of(folder, f"[agent]\ntimeout_sec = {'9' * 4000}\n")
    assert len(problem) < 200


def test_a_link_out_of_the_task(folder: Path) -> None:
    (folder / "tests" / "data").symlink_to("/etc")
    (problem,) = problems_of(folder)
    assert "…/tests/data: links to /etc, which is outside the task" in problem


words = st.text(string.ascii_lowercase + "_", min_size=1, max_size=12)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
tables = st.dictionaries(
    words | st.sampled_from(sorted(RawTask.model_fields)),
    st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner)),
    max_size=5,
)


@settings(deadline=None)
@given(tables)
def test_any_table_can_be_searched_for_unknown_keys(table: dict[str, object]) -> None:
    found = unknown_keys(RawTask, table, limits=LIMITS)
    top = {key.path for key in found if "." not in key.path}
    assert top == set(table) - set(RawTask.model_fields)


@settings(deadline=None)
@given(
    st.sampled_from(["agent.timeout_sec", "environment.memory_mb", "environment.storage_mb"]),
    st.data(),
)
def test_no_slip_of_one_letter_lifts_a_limit(limit: str, data: st.DataObject) -> None:
    section, key = limit.split(".")
    at = data.draw(st.integers(0, len(key) - 1))
    letter = data.draw(st.sampled_from(string.ascii_letters + string.digits + "_-"))
    slip = data.draw(
        st.sampled_from(
            [
                key[:at] + key[at + 1 :],
                key[:at] + letter + key[at:],
                key[:at] + letter + key[at + 1 :],
                key[:at] + key[at : at + 2][::-1] + key[at + 2 :],
            ]
        )
    )
    found = unknown_keys(RawTask, {section: {slip: 5}}, limits=LIMITS)
    known = slip in type(getattr(RawTask(), section)).model_fields
    assert [key.is_limit for key in found] == ([] if known else [True])


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_task_or_an_error(text: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "task.toml").write_text(text, errors="replace")
        with pytest.raises(TaskError) as caught:
            Harbor().load(Path(scratch), strict=False, host_env={})
        assert all("\n" not in problem for problem in caught.value.problems)
