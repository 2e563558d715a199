"""Trajectories in ATIF, the field's exchange format, so that nobody is locked in.

Format: Agent Trajectory Interchange Format 1.7, as Harbor reads and writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackbench_results.records import AttemptRecord, Step, ToolCall, Usage

_VERSION = "ATIF-v1.7"


def to_atif(
    attempt: AttemptRecord,
    *,
    instruction: str,
    steps: Sequence[Step],
    usage: Usage,
    agent: Mapping[str, str | None],
) -> dict[str, Any]:
    """The instruction and every step of an attempt; what is unknown is left out.

    `agent` has `name`, `version` and `model_name`; the format insists on the first two.
    """
    first = {
        "step_id": 1,
        "timestamp": attempt.started_at.isoformat(),
        "source": "user",
        "message": instruction,
    }
    return _known(
        {
            "schema_version": _VERSION,
            "session_id": f"{attempt.run_id}/{attempt.task_id}/{attempt.arm}/"
            f"{attempt.key.index}/{attempt.attempt}",
            "agent": {"name": "unknown", "version": "unknown", **_known(agent)},
            "steps": [first, *(_step(step, number) for number, step in enumerate(steps, 2))],
            "final_metrics": _known(
                {
                    "total_prompt_tokens": usage.prompt_tokens,
                    "total_completion_tokens": usage.completion_tokens,
                    "total_cached_tokens": usage.cached_tokens,
                    "total_steps": len(steps) + 1,
                }
            ),
        }
    )


def _step(step: Step, number: int) -> dict[str, Any]:
    metrics = _known(
        {
            "prompt_tokens": step.prompt_tokens,
            "completion_tokens": step.completion_tokens,
            "cached_tokens": step.cached_tokens,
        }
    )
    seen = [call for call in step.tool_calls if call.observation is not None]
    return _known(
        {
            "step_id": number,
            "timestamp": step.at.isoformat(),
            "source": "agent",
            "model_name": step.model,
            "message": step.message,
            "reasoning_content": step.reasoning,
            "tool_calls": [_call(call) for call in step.tool_calls] or None,
            "observation": {
                "results": [
                    {"source_call_id": call.call_id, "content": call.observation} for call in seen
                ]
            }
            if seen
            else None,
            "metrics": metrics or None,
        }
    )


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if call.arguments is not None else {"_raw": call.raw_arguments}
    return {"tool_call_id": call.call_id, "function_name": call.name, "arguments": arguments}


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
