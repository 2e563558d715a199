"""Run files: what is read, what is refused, and how that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackbench.errors import UsageError
from rackbench.spec import make_spec, override_key, read_values

SMALL = {"tasks": "suite", "arms": ["oracle"]}


def spec_of(values: dict[str, object], beside: Path = Path("/here")):
    return make_spec(values, origin="run.yaml", beside=beside)


def test_short_forms_and_relative_paths() -> None:
    spec = spec_of(SMALL)
    assert [str(source.path) for source in spec.tasks] == ["/here/suite"]
    assert [arm.label for arm in spec.arms] == ["oracle"]
    assert (spec.attempts, spec.retries, spec.solved_at) == (1, 2, 1.0)


def test_an_arm_is_called_after_harness_and_endpoint() -> None:
    spec = spec_of(
        SMALL
        | {
            "arms": [{"harness": "loop", "endpoint": "a"}, {"harness": "loop", "name": "mine"}],
            "endpoints": {"a": {"kind": "external"}},
        }
    )
    assert [arm.label for arm in spec.arms] == ["loop-a", "mine"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"atempts": 2}, r"unknown key 'atempts'; did you mean 'attempts'"),
        ({"limits": {"step": 3}}, r"unknown key 'limits.step'; did you mean 'steps'"),
        ({"arms": [{"harnes": "loop"}]}, r"did you mean 'harness'"),
        ({"attempts": 0}, r"'attempts': .*greater than or equal to 1 \(got 0\)"),
        ({"solved_at": 0}, r"'solved_at'"),
        ({"tasks": []}, r"'tasks'"),
        ({"arms": ["oracle", "oracle"]}, r"arms need different names; twice: oracle"),
        ({"arms": [{"harness": "loop", "endpoint": "b"}]}, r"names endpoint 'b'; there is: none"),
        ({"name": "a/b"}, r"may hold only letters"),
    ],
)
def test_bad_values_are_said_in_one_line_each(change: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        spec_of(SMALL | change)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        spec_of(SMALL | {"atempts": 2, "retires": 1})
    assert str(caught.value).count("\n") == 2


def test_overrides_reach_into_mappings_and_lists() -> None:
    values: dict[str, object] = {"arms": [{"harness": "loop"}], "limits": None}
    for override in ("limits.steps=20", "arms.0.settings.mode=text", "name=x", "attempts=3"):
        override_key(values, override)
    assert values == {
        "arms": [{"harness": "loop", "settings": {"mode": "text"}}],
        "limits": {"steps": 20},
        "name": "x",
        "attempts": 3,
    }


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("limits.steps", "expected key=value"),
        ("=3", "expected key=value"),
        ("arms.7.name=x", "no position in a list of 1"),
        ("name.x=1", "below a plain value|holds no keys"),
        ("name=[", "not YAML"),
    ],
)
def test_bad_overrides_are_refused(override: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        override_key({"arms": [{}], "name": "n"}, override)


@pytest.mark.parametrize("text", ["", "- a\n", "a: [", "\x00"])
def test_files_that_are_no_run_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"run\.yaml"):
        read_values(file)
    with pytest.raises(UsageError, match="there is no run file"):
        read_values(tmp_path / "absent.yaml")
