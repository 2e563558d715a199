"""dataset.toml: the tasks it lists, with Harbor's digests, which must be theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rackbench_tasks import Places, Source, Suite, TaskError, load_sources, load_suite

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


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "cache" / "sources")


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


# As Harbor 0.26 computes it of the task that `dataset` writes.
HARBOR = "sha256:12e09f6b1aa02f9751bd12cf1a90dc005f5233183e44981f19e937b4d3d7c8f2"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "dataset"
    for name in ("apple", "banana"):
        toml = f'[task]\nname = "fruit/{name}"\n'
        write_task(folder / name, **{"task.toml": toml, "notes.md": "Not published.\n"})
    (folder / "apple" / "tests" / "left~").write_text("Not published either.\n")
    (folder / "metric.py").write_text("print(1)\n")
    return folder


def list_tasks(folder: Path, **digests: str) -> Path:
    lines = ["[dataset]", 'name = "acme/fruit"', 'version = "4.0.0"', ""]
    for name, digest in digests.items():
        lines += ["[[tasks]]", f'name = "fruit/{name}"', f'digest = "{digest}"', ""]
    (folder / "dataset.toml").write_text("\n".join(lines))
    return folder / "dataset.toml"


def test_a_dataset(dataset: Path, places: Places) -> None:
    manifest = list_tasks(dataset, apple=HARBOR)
    for path in (dataset, manifest):
        suite = load_suite(path, strict=True, host_env={}, places=places)
        assert names(suite) == ["apple"]
        assert suite.origins["fruit/apple"].dataset == "acme/fruit@4.0.0"
        assert suite.warnings == (f"{dataset}/banana: is not listed in dataset.toml; left out",)


def test_a_dataset_whose_task_has_changed(dataset: Path, places: Places) -> None:
    wrong = "sha256:" + "0" * 64
    list_tasks(dataset, apple=wrong, banana=wrong, cherry=wrong)
    problems = problem_lines(dataset, places)
    assert (
        f"task 'fruit/apple' has changed: its digest is {HARBOR}, and {wrong} is listed"
        in (problems[0])
    )
    assert "task 'fruit/banana' has changed" in problems[1]
    assert "lists 'fruit/cherry', and no folder beside it is that task" in problems[2]
    list_tasks(dataset, apple=HARBOR, banana=wrong, cherry=wrong)
    source = {"path": str(dataset), "exclude": ["fruit/banana", "cherry"]}
    assert names(load(places, source)) == ["apple"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'dataset' is missing"),
        ("[", "is not TOML"),
        (
            '[dataset]\nname = "a/b"\n[[tasks]]\nname = "a"\ndigest = 5\n',
            ":5: 'tasks.0.digest' is 5",
        ),
        (
            (
                f'[dataset]\nname = "a/b"\n[[tasks]]\nname = "a/b"\ndigest = "{HARBOR}"\n'
                f'[[tasks]]\nname = "a/b"\ndigest = "{HARBOR[:-1]}0"\n'
            ),
            "lists 'a/b' with two digests",
        ),
        (
            (
                f'tasks = []\n[dataset]\nname = "a/b"\n[[files]]\npath = "metric.py"\n'
                f'digest = "{HARBOR}"\n'
            ),
            "the file 'metric.py' has changed: its digest is sha256:",
        ),
        (
            'tasks = []\n[dataset]\nname = "a/b"\n[[files]]\npath = "none.py"\n',
            "lists the file 'none.py': No such file",
        ),
        ('tasks = []\n[dataset]\nname = "a/b"\n[[files]]\npath = "../x"\n', "without folders"),
    ],
)
def test_a_dataset_list_that_is_wrong(dataset: Path, places: Places, text: str, said: str) -> None:
    (dataset / "dataset.toml").write_text(text)
    assert any(said in line for line in problem_lines(dataset, places))


def problem_lines(path: Path, places: Places) -> tuple[str, ...]:
    with pytest.raises(TaskError) as caught:
        load_suite(path, strict=True, host_env={}, places=places)
    return caught.value.problems
