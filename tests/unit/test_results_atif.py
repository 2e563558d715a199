"""Trajectories against the format's list of fields, none of them ours."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rackbench_results import AttemptRecord, Step, ToolCall, TrialKey, Usage
from rackbench_results.atif import to_atif

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ATTEMPT = AttemptRecord(
    run_id="run",
    key=TrialKey(task_digest="t", arm_digest="a", index=3),
    task_id="org/task",
    arm="arm",
    attempt=2,
    started_at=NOW,
    runner_pid=1,
    host="host",
)
AGENT = {"name": "loop", "version": "1", "model_name": "kimi"}

# Every field that the format knows, by object; the first set are those it insists on.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "trajectory": (
        {"schema_version", "session_id", "agent", "steps"},
        {"notes", "final_metrics", "continued_trajectory_ref", "extra"},
    ),
    "agent": ({"name", "version"}, {"model_name", "tool_definitions", "extra"}),
    "step": (
        {"step_id", "source", "message"},
        {
            "timestamp",
            "model_name",
            "reasoning_effort",
            "reasoning_content",
            "tool_calls",
            "observation",
            "metrics",
            "extra",
        },
    ),
    "tool_call": ({"tool_call_id", "function_name", "arguments"}, set()),
    "result": (set(), {"source_call_id", "content"}),
    "metrics": (
        set(),
        {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "logprobs", "extra"},
    ),
    "final_metrics": (
        set(),
        {
            "total_prompt_tokens",
            "total_completion_tokens",
            "total_cached_tokens",
            "total_cost_usd",
            "total_steps",
            "extra",
        },
    ),
}
OF_AGENTS_ALONE = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def check(kind: str, value: dict[str, Any]) -> None:
    must, may = FIELDS[kind]
    assert must <= value.keys() <= must | may, kind
    assert None not in value.values(), kind


def validate(trajectory: dict[str, Any]) -> None:
    """As the format's own reader does."""
    check("trajectory", trajectory)
    assert trajectory["schema_version"] == "ATIF-v1.7"
    check("agent", trajectory["agent"])
    check("final_metrics", trajectory["final_metrics"])
    assert [step["step_id"] for step in trajectory["steps"]] == list(
        range(1, len(trajectory["steps"]) + 1)
    )
    for step in trajectory["steps"]:
        check("step", step)
        assert step["source"] in ("system", "user", "agent")
        assert datetime.fromisoformat(step["timestamp"]).tzinfo
        assert step["source"] == "agent" or not step.keys() & OF_AGENTS_ALONE
        check("metrics", step.get("metrics", {}))
        for call in step.get("tool_calls", []):
            check("tool_call", call)
            assert isinstance(call["arguments"], dict)
        known = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        for seen in step.get("observation", {}).get("results", []):
            check("result", seen)
            assert seen["source_call_id"] in known


def written(steps: list[Step], *, usage: Usage | None = None, agent: Any = None) -> dict[str, Any]:
    found = to_atif(
        ATTEMPT,
        instruction="Mend it.",
        steps=steps,
        usage=usage or Usage(),
        agent=AGENT if agent is None else agent,
    )
    return json.loads(json.dumps(found))


STEPS = [
    Step(
        number=1,
        at=NOW + timedelta(seconds=1),
        message="I look.",
        reasoning="Where is it?",
        model="kimi-k3.1",
        tool_calls=(
            ToolCall(call_id="c1", name="bash", arguments={"command": "ls"}, observation="a b"),
            ToolCall(call_id="c2", name="bash", arguments=None, raw_arguments='{"command'),
        ),
        prompt_tokens=100,
        cached_tokens=0,
        completion_tokens=20,
    ),
    Step(number=2, at=NOW + timedelta(seconds=2), message="Done."),
]


def test_every_step_after_the_instruction() -> None:
    trajectory = written(STEPS, usage=Usage(prompt_tokens=100, completion_tokens=20))
    validate(trajectory)
    user, first, second = trajectory["steps"]
    assert (user["source"], user["message"]) == ("user", "Mend it.")
    assert first["reasoning_content"] == "Where is it?"
    assert [call["arguments"] for call in first["tool_calls"]] == [
        {"command": "ls"},
        {"_raw": '{"command'},
    ]
    assert first["observation"]["results"] == [{"source_call_id": "c1", "content": "a b"}]
    # Zero is known, and none is left out.
    assert first["metrics"] == {
        "prompt_tokens": 100, "cached_tokens": 0, "completion_tokens": 20,
    }  # fmt: skip
    assert second == {
        "step_id": 3,
        "timestamp": "2026-11-30T12:00:02+00:00",
        "source": "agent",
        "message": "Done.",
    }
    assert trajectory["final_metrics"] == {
        "total_prompt_tokens": 100,
        "total_completion_tokens": 20,
        "total_steps": 3,
    }
    assert trajectory["session_id"] == "run/org/task/arm/3/2"
    assert trajectory["agent"] == AGENT


@pytest.mark.parametrize("agent", [{}, {"name": "oracle", "version": None, "model_name": None}])
def test_an_attempt_without_a_model_or_a_step_is_still_valid(agent: dict[str, Any]) -> None:
    trajectory = written([], agent=agent)
    validate(trajectory)
    assert len(trajectory["steps"]) == 1
    assert trajectory["agent"]["version"] == "unknown"
