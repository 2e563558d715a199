"""Suites: what is selected, in which order, and what is said where that is not clear."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_tasks import (
    Source,
    Suite,
    TaskError,
    installed_formats,
    load_sources,
    load_suite,
    pinned,
)
from rackbench_tasks.formats.harbor import Harbor

KINDS = ("toml", "yaml")


def write_task(folder: Path, toml: str = "") -> Path:
    for name, text in {
        "task.toml": toml,
        "instruction.md": "Fix it.\n",
        "environment/Dockerfile": "FROM base\n",
        "tests/test.sh": "echo 1 >/logs/verifier/reward.txt\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Four tasks, and what may lie beside tasks."""
    for name in ("cherry", "apple", "banana", "date"):
        write_task(tmp_path / "tasks" / name, f'[task]\nname = "fruit/{name}"\n')
    (tmp_path / "tasks" / "README.md").write_text("Not a task.\n")
    (tmp_path / "tasks" / ".git").mkdir()
    return tmp_path / "tasks"


def load(path: Path, *, strict: bool = False) -> Suite:
    return load_suite(path, strict=strict, host_env={})


def load_file(folder: Path, values: Any, *, strict: bool = False) -> Suite:
    file = folder / "fruit.yaml"
    file.write_text(values if isinstance(values, str) else yaml.safe_dump(values, sort_keys=False))
    return load(file, strict=strict)


def names(suite: Suite) -> list[str]:
    return [task.name for task in suite.tasks]


def problems_of(folder: Path, values: Any = None) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load(folder) if values is None else load_file(folder, values)
    assert all("\n" not in problem for problem in caught.value.problems)
    return [problem.replace(str(folder), "…") for problem in caught.value.problems]


def test_a_folder_of_tasks(tasks: Path) -> None:
    suite = load(tasks)
    assert suite.name == "tasks"
    assert names(suite) == ["apple", "banana", "cherry", "date"]
    assert [task.id for task in suite.tasks][:2] == ["fruit/apple", "fruit/banana"]
    assert suite.warnings == ()


def test_one_task(tasks: Path) -> None:
    suite = load(tasks / "apple")
    assert (suite.name, names(suite)) == ("apple", ["apple"])


def test_a_folder_beside_tasks_that_is_none_is_told(tasks: Path) -> None:
    (tasks / "elderberry").mkdir()
    (tasks / "_notes").mkdir()
    write_task(tasks / ".hidden")
    (warning,) = load(tasks).warnings
    assert warning == f"{tasks}/elderberry: is no task (no task.toml), and is left out"


def test_a_suite_file(tasks: Path) -> None:
    write_task(tasks.parent / "more" / "fig")
    suite = load_file(
        tasks.parent,
        {
            "name": "Fruit",
            "description": "All of it.",
            "tasks": ["more/fig", {"path": "tasks", "include": ["*a*"], "exclude": ["fruit/d*"]}],
        },
    )
    assert (suite.name, suite.description) == ("Fruit", "All of it.")
    assert names(suite) == ["fig", "apple", "banana"]
    assert suite.tasks[1].folder == tasks / "apple"


def test_a_suite_is_called_after_its_file(tasks: Path) -> None:
    assert load_file(tasks.parent, {"tasks": ["tasks"]}).name == "fruit"


def test_sources_are_relative_to_the_suite_file(
    tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tasks.parent / "suites").mkdir()
    monkeypatch.chdir(tasks)
    suite = load_file(tasks.parent / "suites", {"tasks": ["../tasks/apple", str(tasks / "date")]})
    assert [task.folder for task in suite.tasks] == [tasks / "apple", tasks / "date"]


def test_an_order_goes_first(tasks: Path) -> None:
    values = {"tasks": ["tasks"], "order": ["fruit/date", "banana"]}
    assert names(load_file(tasks.parent, values)) == ["date", "banana", "apple", "cherry"]


def test_samples_are_stable_and_grow(tasks: Path) -> None:
    chosen = []
    for count in range(1, 5):
        values = {"tasks": ["tasks"], "sample": {"count": count, "seed": 7}}
        chosen.append(names(load_file(tasks.parent, values)))
        assert chosen[-1] == sorted(chosen[-1])
    assert [len(sample) for sample in chosen] == [1, 2, 3, 4]
    assert all(set(less) < set(more) for less, more in itertools.pairwise(chosen))
    assert chosen[1] == ["cherry", "date"]


@settings(deadline=None, max_examples=20)
@given(st.integers())
def test_a_sample_does_not_depend_on_the_order_of_sources(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "sampled"
    if not folder.exists():
        for name in "abcdefgh":
            write_task(folder / name)
    samples = [
        names(load_file(folder, {"tasks": sources, "sample": {"count": 3, "seed": seed}}))
        for sources in (list("abcdefgh"), list("hgfedcba"))
    ]
    assert samples[0] == samples[1][::-1]


def test_the_digest_is_of_tasks_and_their_order(tasks: Path) -> None:
    digest = load(tasks).digest
    assert digest == load_file(tasks.parent, {"name": "x", "tasks": ["tasks"]}).digest
    assert digest.startswith("sha256:")
    reordered = load_file(tasks.parent, {"tasks": ["tasks"], "order": ["date"]})
    assert reordered.digest != digest
    (tasks / "date" / "instruction.md").write_text("Fix it now.\n")
    assert load(tasks).digest != digest


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ({}, ["'tasks' is missing"]),
        ({"tasks": []}, ["'tasks' is a list; expected a list that is not empty"]),
        ({"tasks": "tasks"}, ["'tasks' is \"tasks\" (text); expected a list"]),
        ({"tasks": [5]}, ["'tasks.0' is 5; expected a table"]),
        (
            {"tasks": ["tasks"], "smaple": {}, "sample": {"cont": 1}},
            [
                "unknown key 'smaple'; did you mean 'sample'?",
                "unknown key 'sample.cont'; did you mean 'count'?",
                "'sample.count' is missing",
            ],
        ),
        (
            {"tasks": [{"path": "tasks", "includes": ["a"]}]},
            ["unknown key 'tasks.0.includes'; did you mean 'include'?"],
        ),
        (
            {"tasks": ["tasks"], "sample": {"count": True}},
            ["'sample.count' is true; expected a whole number"],
        ),
        (
            {"tasks": ["tasks"], "sample": {"count": 5}},
            ["sample wants 5 tasks, and there are 4"],
        ),
        (
            {"tasks": ["tasks"], "order": ["appel", "date", "fruit/date"]},
            [
                "order names 'appel', which is no task; did you mean 'apple'?",
                "order names 'fruit/date', which has its place already",
            ],
        ),
        (
            {"tasks": [{"path": "tasks", "include": ["apple", "appel", "b?"]}]},
            [
                "include 'appel' matches no task of …/tasks",
                "include 'b?' matches no task of …/tasks",
            ],
        ),
        (
            {"tasks": [{"path": "tasks", "exclude": ["*"]}]},
            ["no task of …/tasks is left after include and exclude"],
        ),
        (
            {"tasks": ["tasks", "tasks/date"]},
            ["…/tasks/date is taken twice; name it in one source alone"],
        ),
        ({"tasks": [{}]}, ["'tasks.0' is a table; expected one of `path`, `git` and `archive`"]),
        (
            {"tasks": [{"git": "https://host/a.git"}]},
            ["'tasks.0' is a table; expected `ref` beside `git`: a tag, or a full commit"],
        ),
        ({"tasks": [{"path": "a", "ref": "v1"}]}, ["expected `git` beside `ref`"]),
        ({"tasks": [{"path": "a", "digest": "5"}]}, ["expected sha256: and 64 digits of 0-9a-f"]),
        (
            {"tasks": [{"git": "ext::sh -c id", "ref": 4.0}]},
            [
                "'tasks.0.git' is \"ext::sh -c id\" (text); expected a repository's address: file,",
                "'tasks.0.ref' is 4.0; expected text; put it into quotes, since YAML reads it as",
            ],
        ),
        (
            {"tasks": [{"git": "--upload-pack=x", "ref": "v1..v2"}]},
            ["expected a repository's address", "expected a tag, or a full commit"],
        ),
        (
            {"tasks": [{"git": "/a", "ref": "v1", "path": "../b"}]},
            ["expected `path` inside the repository or archive"],
        ),
        ({"tasks": ["tasks"], "digests": {"apple": "5"}}, ["expected sha256: and 64 digits"]),
        ("- tasks\n", ["expected a suite: `tasks:` with a list of paths"]),
        ("", ["expected a suite: `tasks:` with a list of paths"]),
        ("tasks: [a]\ntasks: [b]\n", ["the key 'tasks' stands twice in the mapping at line 1"]),
        ("tasks: [\n", ["is not YAML: while parsing"]),
        ("a: 2020-99-99\n", ["is not YAML: month must be in 1..12"]),
        ("a: !!python/object:os.system {}\n", ["is not YAML: could not determine a constructor"]),
    ],
)
def test_what_a_suite_file_cannot_say(tasks: Path, values: Any, problems: list[str]) -> None:
    said = problems_of(tasks.parent, values)
    assert len(said) == len(problems)
    for found, expected in zip(said, problems, strict=True):
        assert re.match(r"…/fruit\.yaml(:\d+)?: ", found)
        assert expected in found


def test_keys_that_are_not_known_are_told_with_their_line(tasks: Path) -> None:
    (problem,) = problems_of(
        tasks.parent, "name: x\ntasks:\n  - path: tasks\n    incldue: [a]\nsample: {count: 1}\n"
    )
    assert problem == "…/fruit.yaml:4: unknown key 'tasks.0.incldue'; did you mean 'include'?"
    said = problems_of(tasks.parent, "tasks: [tasks]\n\nsample:\n  count: none\n")
    assert said[0].startswith("…/fruit.yaml:4: 'sample.count' is")


def test_pins(tasks: Path) -> None:
    values: dict[str, Any] = {"tasks": [{"path": "tasks", "exclude": ["date"]}]}
    pins = yaml.safe_load(pinned(load_file(tasks.parent, values)))
    assert list(pins["digests"]) == ["fruit/apple", "fruit/banana", "fruit/cherry"]
    sampled = load_file(tasks.parent, values | pins | {"sample": {"count": 2}})
    assert len(sampled.tasks) == 2
    wrong = "sha256:" + "0" * 64
    apple = pins["digests"].pop("fruit/apple")
    pins["digests"] |= {"banana": wrong, "chery": wrong}
    said = problems_of(tasks.parent, values | pins)
    assert len(said) == 3
    assert "task 'banana' has changed: its digest is sha256:" in said[0]
    assert f"{wrong} is pinned (…/tasks/banana)" in said[0]
    assert "digests names 'chery', which is no task; did you mean 'cherry'?" in said[1]
    assert f"task 'fruit/apple' has no pin in digests: {apple}" in said[2]
    file = tasks.parent / "fruit.yaml"
    again = load_suite(file, strict=False, host_env={}, to_pin=True)
    assert yaml.safe_load(pinned(again))["digests"]["fruit/apple"] == apple


def test_a_suite_file_names_another(tasks: Path) -> None:
    inner = {"tasks": ["tasks"], "order": ["date"], "sample": {"count": 3, "seed": 2}}
    (tasks.parent / "inner.yml").write_text(yaml.safe_dump(inner))
    alone = load(tasks.parent / "inner.yml")
    assert names(load_file(tasks.parent, {"tasks": ["inner.yml"]})) == names(alone)
    without = {"path": "inner.yml", "exclude": [alone.tasks[1].id]}
    assert names(load_file(tasks.parent, {"tasks": [without]})) == [
        alone.tasks[0].name,
        alone.tasks[2].name,
    ]


def test_suite_files_that_name_each_other(tasks: Path) -> None:
    (tasks.parent / "inner.yml").write_text("tasks: [fruit.yaml]\n")
    assert problems_of(tasks.parent, {"tasks": ["inner.yml"]}) == [
        "…/fruit.yaml: names itself by way of …/inner.yml"
    ]


def test_several_sources_are_one_suite(tasks: Path) -> None:
    write_task(tasks.parent / "more" / "fig")
    sources = [Source(path="more"), Source(path="tasks", include=("apple",))]
    suite = load_sources(sources, beside=tasks.parent, strict=False, host_env={})
    assert names(suite) == ["fig", "apple"]
    assert str(suite.origins["fruit/apple"]) == f"{tasks}, apple"
    write_task(tasks.parent / "more" / "golden", '[task]\nname = "fruit/apple"\n')
    with pytest.raises(TaskError, match=r"two tasks have the id 'fruit/apple': .*golden and .*app"):
        load_sources(sources, beside=tasks.parent, strict=False, host_env={})


def test_an_exclude_that_matches_nothing_is_told(tasks: Path) -> None:
    suite = load_file(tasks.parent, {"tasks": [{"path": "tasks", "exclude": ["fgi"]}]})
    assert suite.warnings == (
        f"{tasks.parent}/fruit.yaml: exclude 'fgi' matches no task of {tasks}",
    )


def test_two_tasks_of_one_id_are_both_named(tasks: Path) -> None:
    write_task(tasks.parent / "more" / "golden", '[task]\nname = "fruit/apple"\n')
    (problem,) = problems_of(tasks.parent, {"tasks": ["tasks", "more"]})
    assert "two tasks have the id 'fruit/apple': …/tasks/apple and …/more/golden" in problem


def test_problems_of_all_tasks_are_told_at_once(tasks: Path) -> None:
    (tasks / "apple" / "instruction.md").unlink()
    (tasks / "banana" / "task.toml").write_text("[agent]\ntimeout_secs = 5\n")
    (tasks / "date" / "task.toml").write_text("[")
    said = problems_of(tasks)
    assert [problem.split(":")[0] for problem in said] == [
        *("there is no …/apple/instruction.md", "…/banana/task.toml", "…/date/task.toml"),
    ]


@pytest.mark.parametrize("include", [["*"], ["apple", "da*"], ["apple", "named-date"]])
def test_a_broken_task_is_not_passed_over_where_it_may_be_meant(
    tasks: Path, include: list[str]
) -> None:
    (tasks / "date" / "task.toml").write_text("[")
    source = {"path": "tasks", "include": include}
    (problem,) = problems_of(tasks.parent, {"tasks": [source]})
    assert "…/tasks/date/task.toml: is not TOML" in problem


def test_a_broken_task_that_is_not_meant_is_only_told(tasks: Path) -> None:
    (tasks / "date" / "task.toml").write_text("[")
    source = {"path": "tasks", "include": ["apple"]}
    suite = load_file(tasks.parent, {"tasks": [source]})
    assert names(suite) == ["apple"]
    (warning,) = suite.warnings
    assert "date/task.toml: is not TOML" in warning
    suite = load_file(tasks.parent, {"tasks": [source | {"exclude": ["date"]}]})
    assert (names(suite), suite.warnings) == (["apple"], ())


def test_strict_reaches_every_task(tasks: Path) -> None:
    (tasks / "date" / "task.toml").write_text("colour = 'brown'\n")
    assert load(tasks).tasks[-1].warnings != ()
    with pytest.raises(TaskError, match="unknown key 'colour'"):
        load(tasks, strict=True)


def test_paths_that_lead_to_no_task(tasks: Path) -> None:
    assert problems_of(tasks / "absent") == ["there is no …"]
    assert problems_of(tasks / ".git")[0].startswith("…: holds no task; expected folders with a")
    assert problems_of(tasks.parent) == ["…: holds no task; did you mean …/tasks?"]
    assert problems_of(tasks / "README.md")[0].startswith("…: expected a suite file (.yaml)")
    assert problems_of(tasks.parent, {"tasks": ["none", "tasks/README.md"]}) == [
        "there is no …/none",
        "…/tasks/README.md: expected a task's folder, or a folder of tasks",
    ]
    assert "File name too long" in problems_of(tasks / ("x" * 300))[0]


def test_a_suite_file_that_is_not_utf_8(tasks: Path) -> None:
    (tasks / "bad.yaml").write_bytes(b"name: \xff\n")
    assert problems_of(tasks / "bad.yaml") == [
        "…: is not UTF-8 (byte 0xff at position 6); convert it"
    ]


def test_the_format_is_a_plug_in() -> None:
    assert any(isinstance(task_format, Harbor) for task_format in installed_formats())


def test_the_examples_of_the_readme_are_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "tasks" / "README.md").read_text()
    toml, suite = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)[0] for kind in KINDS)
    write_task(tmp_path / "suite" / "fix-it", toml)
    for number in range(20):
        write_task(tmp_path / "shared" / "tasks" / f"db-{number}")
    write_task(tmp_path / "shared" / "tasks" / "db-flaky")
    write_task(tmp_path / "shared" / "tasks" / "login", '[task]\nname = "acme/login"\n')
    loaded = load_file(tmp_path / "suite", suite, strict=True)
    assert (loaded.name, len(loaded.tasks)) == ("nightly", 20)
    assert all(not task.warnings and task.name != "db-flaky" for task in loaded.tasks)
