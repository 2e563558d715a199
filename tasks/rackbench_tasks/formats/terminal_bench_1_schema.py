"""`task.yaml` as written: every key of Terminal-Bench 1 and of the sets derived from it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, StrictBool

from rackbench_tasks.keys import Limits

LIMITS = Limits(
    keys=frozenset({"max_agent_timeout_sec", "max_test_timeout_sec"}),
    words=frozenset({"deadline", "limit", "limits", "timeout", "timeouts"}),
)


Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]


class _Raw(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RawDescription(_Raw):
    """One of `descriptions`: the instruction at one level of difficulty."""

    key: str
    description: str


class RawTask(_Raw):
    """A whole `task.yaml`. What is `Any` is for people, and kept as metadata."""

    instruction: str | None = None
    descriptions: tuple[RawDescription, ...] | None = None
    description: str | None = None
    parser_name: str | None = None
    max_agent_timeout_sec: Positive | None = None
    max_test_timeout_sec: Positive | None = None
    run_tests_in_same_shell: StrictBool | None = None
    disable_asciinema: Any = None
    estimated_duration_sec: Any = None
    expert_time_estimate_min: Any = None
    junior_time_estimate_min: Any = None
    author: Any = None
    author_name: Any = None
    author_email: Any = None
    category: Any = None
    difficulty: Any = None
    env_name: Any = None
    id: Any = None
    language: Any = None
    name: Any = None
    tags: Any = None
    task_name: Any = None
    test_scripts: Any = None
    tier: Any = None
    type: Any = None
    version: Any = None


METADATA = frozenset(
    name for name, field in RawTask.model_fields.items() if field.annotation is Any
)
"""Keys that nothing depends on."""


class RawKeystrokes(_Raw):
    """One entry of `solution.yaml`: what is typed into the terminal."""

    command: str
    min_timeout_sec: float | None = None
    max_timeout_sec: float | None = None
    block: StrictBool | None = None
    append_enter: StrictBool = True
