"""The README files say what the code does: keys, commands, settings, plug-ins, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from rackbench.endpoint.external import ExternalSettings
from rackbench.endpoint.profile import shipped_profiles
from rackbench.endpoint.scripted import ScriptedSettings
from rackbench.endpoint.settings import EndpointSettings, Price
from rackbench.endpoint.vllm import VllmSettings
from rackbench.errors import Exit
from rackbench.plan import make_plan
from rackbench.spec import RunLimits, RunSpec, SandboxSettings, make_spec
from rackbench_harnesses.loop import LoopSettings
from rackbench_harnesses.ports import Finish
from rackbench_tasks import load_suite

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RUNNER = (ROOT / "runner" / "README.md").read_text()
HARNESSES = (ROOT / "harnesses" / "README.md").read_text()
OWN_KEYS_OF_ALL = set(EndpointSettings.model_fields)


def table_keys(text: str) -> list[str]:
    """First cells of all tables, where they hold a single code word."""
    return re.findall(r"^\| `([^`|]+)` \|", text, re.MULTILINE)


def section(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def keys_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    return {prefix + name for name in model.model_fields}


def test_every_key_of_the_run_file_is_explained_and_no_other() -> None:
    told = set(table_keys(section(README, "## The run file", "Every endpoint takes")))
    spec = keys_of(RunSpec) - {"limits", "sandbox"}
    assert told == spec | keys_of(RunLimits, "limits.") | keys_of(SandboxSettings, "sandbox.")


@pytest.mark.parametrize(
    ("start", "end", "model"),
    [
        ("Every endpoint takes", "`vllm`, a process", EndpointSettings),
        ("`vllm`, a process", "`external`, somebody", VllmSettings),
        ("`external`, somebody", "`scripted`, answers", ExternalSettings),
        ("`scripted`, answers", "## ", ScriptedSettings),
    ],
)
def test_every_key_of_an_endpoint_is_explained(
    start: str, end: str, model: type[BaseModel]
) -> None:
    told = set(table_keys(section(README, start, end)))
    own = keys_of(model) if model is EndpointSettings else keys_of(model) - OWN_KEYS_OF_ALL
    assert told == own


def test_prices_and_profiles_are_named() -> None:
    for key in Price.model_fields:
        assert f"`{key}`" in README
    for profile in shipped_profiles():
        assert f"`{profile}`" in README


def test_every_setting_and_finish_of_harnesses_is_explained() -> None:
    told = table_keys(section(HARNESSES, "`loop` takes these settings", "## Testing"))
    assert set(told) == keys_of(LoopSettings)
    for finish in Finish:
        assert f"`{finish}`" in HARNESSES


@pytest.mark.parametrize(("group", "count"), [((), 8), (("task",), 6), (("task", "images"), 2)])
def test_every_command_is_explained(group: tuple[str, ...], count: int) -> None:
    told = RUNNER.partition("## The command line")[2]
    rackbench = Path(sys.executable).with_name("rackbench")
    listed = subprocess.run(
        [rackbench, *group, "--help"], capture_output=True, text=True, check=True
    )
    commands = re.findall(r"^  ([a-z-]+)  ", listed.stdout.partition("Commands:")[2], re.MULTILINE)
    assert len(commands) >= count
    for command in commands:
        assert " ".join(["`rackbench", *group, command]) in told.replace(
            "`images", "`rackbench task images"
        )


def test_exit_codes_are_explained() -> None:
    told = section(RUNNER, "Exit codes:", "\n\n")
    assert [int(code) for code in re.findall(r"\b\d+\b", told)] == sorted(Exit)


def test_plug_in_groups_and_their_built_ins_are_explained() -> None:
    told = section(RUNNER, "## Plug-ins", "## Same run")
    points = [p for p in distribution("rackbench").entry_points if p.group.startswith("rackbench.")]
    assert set(table_keys(told)) == {point.group for point in points}
    for point in points:
        assert f"`{point.name}`" in told


def test_the_example_of_a_run_file_is_one() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    spec = make_spec(yaml.safe_load(example), origin="README", beside=ROOT)
    assert spec.arms[0].label == "loop-kimi"
    ExternalSettings.model_validate(spec.endpoints["kimi"])


def test_the_example_of_a_harness_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", HARNESSES, re.DOTALL)
    (tmp_path / "my_agent.py").write_text(example)
    code = "import my_agent as m; from rackbench_harnesses.ports import Harness; "
    code += "assert isinstance(m.MyAgent({'greeting': 'x'}), Harness)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_demo_is_planned_as_told() -> None:
    values = yaml.safe_load((ROOT / "demo.yaml").read_text())
    plan = make_plan(make_spec(values, origin="demo", beside=ROOT), beside=ROOT, host_env={})
    assert [arm.name for arm in plan.arms] == ["oracle", "nop", "loop-small"]
    assert (len(plan.tasks), len(plan.trials)) == (12, 36)
    assert plan.warnings == ()


def test_the_shipped_suite_has_all_its_parts() -> None:
    suite = load_suite(ROOT / "tasks" / "suites" / "demo", strict=True, host_env={})
    assert len(suite.tasks) == 12
    for task in suite.tasks:
        (stage,) = task.stages
        assert stage.solution is not None
        assert task.needs == ()
        assert task.environment.network.mode == "no-network"
        assert stage.agent.timeout_seconds is not None


def test_the_output_shown_is_one_of_the_program() -> None:
    shown = section(README, "without a GPU:", "`oracle` runs each")
    for words in ("oracle", "nop", "loop-small", "95 % interval", "bracket", "TTFT s", "CPU"):
        assert words in shown


def test_no_file_is_longer_than_a_few_screens() -> None:
    sources = [
        path
        for folder in ("runner", "tasks/rackbench_tasks", "harnesses", "results")
        for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(sources) > 60
    long = [str(path) for path in sources if len(path.read_text().splitlines()) > 400]
    assert long == []
