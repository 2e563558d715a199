"""The records of a run folder: what is written once, and read for ever."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rackbench_results.outcomes import RULES, Outcome, Reason


class Record(BaseModel):
    """A frozen record that refuses unknown fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


class TrialKey(Record):
    """Identity of a trial by content: the same key means the same experiment."""

    task_digest: str
    arm_digest: str
    index: int = Field(ge=0)
    """Which repetition of this task and arm, from 0."""


class AttemptRecord(Record):
    """`attempt.json`: written before anything else happens in an attempt."""

    schema_version: Literal[1] = 1
    run_id: str
    key: TrialKey
    task_id: str
    arm: str
    attempt: int = Field(ge=1)
    started_at: datetime
    """UTC."""
    runner_pid: int
    host: str


class Phase(Record):
    """One stage of an attempt, with its own deadline."""

    name: str
    started_at: datetime
    """UTC."""
    seconds: float = Field(ge=0)
    limit_seconds: float | None = None
    """None: this stage has no deadline of its own."""


class Usage(Record):
    """What the gateway measured over all model calls of an attempt; None is unknown, never zero."""

    calls: int = 0
    """Requests that reached the gateway, failed ones included."""
    failed_calls: int = 0
    steps: int = 0
    """Model calls that were answered: the unit counted alike for every harness."""
    prompt_tokens: int | None = None
    """As counted by the server, cached ones included."""
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    max_context_tokens: int | None = None
    """The longest prompt plus its completion."""
    model_seconds: float = 0.0
    """Sum over calls of the time between request and last byte."""
    ttft_seconds_median: float | None = None
    itl_seconds_median: float | None = None


class StageResult(Record):
    """One instruction of a task that has several, as it was judged."""

    name: str
    reward: float | None = Field(default=None, ge=0, le=1)
    """None: it was not reached, and counts 0 in the whole."""
    rewards: dict[str, float] = Field(default_factory=dict)
    tests: dict[str, str] = Field(default_factory=dict)
    agent_end: str = ""
    """How its agent phase ended."""


class Result(Record):
    """`result.json`: its valid presence is the commit mark of an attempt."""

    schema_version: Literal[1] = 1
    run_id: str
    key: TrialKey
    task_id: str
    arm: str
    attempt: int = Field(ge=1)
    outcome: Outcome
    reason: Reason | None = None
    detail: str = ""
    """One line for a person: what happened."""
    reward: float | None = Field(default=None, ge=0, le=1)
    """What the verifier wrote; None is unknown, never zero."""
    rewards: dict[str, float] = Field(default_factory=dict)
    """Every number of a reward.json."""
    tests: dict[str, str] = Field(default_factory=dict)
    """Each test by name, as the verifier's own report tells: passed, failed, error, skipped."""
    stages: tuple[StageResult, ...] = ()
    """Of a task with several instructions, in order; empty for any other."""
    started_at: datetime
    finished_at: datetime
    queue_seconds: float = Field(default=0.0, ge=0)
    """Waiting for a slot, apart from the time the attempt itself took."""
    phases: tuple[Phase, ...] = ()
    usage: Usage = Usage()
    image: str | None = None
    """Identity of the image the sandbox was made from."""
    harness_exit: str | None = None
    """How the harness said it ended (submitted, step_limit, …)."""
    teardown_error: str | None = None
    """Kept beside the first error, never instead of it."""
    notes: tuple[str, ...] = ()
    """What a reader should know: signals, waived checks, oddities."""

    @model_validator(mode="after")
    def _reason_fits_outcome(self) -> Result:
        if self.outcome in (Outcome.SOLVED, Outcome.CANCELLED):
            if self.reason is not None:
                message = f"outcome {self.outcome} takes no reason, got {self.reason}"
                raise ValueError(message)
        elif self.reason is None or RULES[self.reason].outcome is not self.outcome:
            message = f"reason {self.reason} does not belong to outcome {self.outcome}"
            raise ValueError(message)
        return self

    @property
    def seconds(self) -> float:
        """Wall time of the attempt, queueing left out."""
        return (self.finished_at - self.started_at).total_seconds()


class Event(Record):
    """One line of `events.jsonl`."""

    at: datetime
    """UTC."""
    elapsed_seconds: float
    """Since the attempt began, on a clock that never jumps."""
    kind: str
    detail: str = ""
    extra: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class Call(Record):
    """One line of `calls.jsonl`: one model call as the gateway saw it.

    Times are seconds since `received_at` on a monotonic clock; None is unknown or never happened.
    """

    schema_version: Literal[1] = 1
    number: int = Field(ge=1)
    """Position among the calls of this attempt, from 1."""
    received_at: datetime
    """UTC."""
    dialect: str
    path: str
    model_requested: str | None = None
    model_sent: str | None = None
    streamed: bool = False
    status: int | None = None
    """HTTP status given to the harness; None: it had gone before there was one."""
    error: str | None = None
    """What went wrong, also where an error came inside HTTP 200."""
    client_gone: bool = False
    sent_seconds: float | None = None
    first_byte_seconds: float | None = None
    first_token_seconds: float | None = None
    """TTFT: until the first piece of content, reasoning or tool call. None for unstreamed calls."""
    last_token_seconds: float | None = None
    finished_seconds: float | None = None
    token_gaps_seconds: tuple[float, ...] = ()
    """Between successive pieces of a stream."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    tool_calls: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    policy: tuple[str, ...] = ()
    """What the profile's policy changed in the request."""

    @property
    def context_tokens(self) -> int | None:
        """Prompt plus completion."""
        if self.prompt_tokens is None:
            return None
        return self.prompt_tokens + (self.completion_tokens or 0)


class ToolCall(Record):
    """A tool call that the model asked for, with what came back."""

    call_id: str
    name: str
    arguments: dict[str, object] | None
    """None where the model's arguments were not a JSON object."""
    raw_arguments: str = ""
    observation: str | None = None
    extra: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class Step(Record):
    """One line of `agent/steps.jsonl`: one model call with what the agent did with it."""

    schema_version: Literal[1] = 1
    number: int = Field(ge=1)
    at: datetime
    """UTC, when the step began."""
    message: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    model: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None


class EndpointIdentity(Record):
    """What answers, apart from where it answers: a change of any field is another arm."""

    schema_version: Literal[1] = 1
    kind: str
    model: str
    """Name under which the model is served."""
    weights: str | None = None
    """Digest or id of the weights; None where the server does not tell."""
    engine: str | None = None
    """Name and version of the engine."""
    serving_arguments: tuple[str, ...] = ()
    """Without address, port and key."""
    chat_template: str | None = None
    """Digest."""
    profile: str | None = None
    """Digest of the policy applied by the gateway."""
    context_tokens: int | None = None


class PreflightCheck(Record):
    """One proof of an endpoint, made before any scored work."""

    name: str
    state: Literal["pass", "fail", "unknown"]
    detail: str = ""
    seconds: float = 0.0


class Preflight(Record):
    """`preflight.json`: what an endpoint proved before it was trusted."""

    schema_version: Literal[1] = 1
    at: datetime
    """UTC."""
    checks: tuple[PreflightCheck, ...]

    def state_of(self, name: str) -> str:
        """State of one check; unknown where it was not made."""
        return next((check.state for check in self.checks if check.name == name), "unknown")


class ListPrice(Record):
    """What an API asks for a model's tokens; of a million each."""

    input_per_million: float = Field(ge=0)
    cached_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    currency: str = "USD"
    date: str
    source: str


class TokenWeights(Record):
    """What a token costs relative to the others, for sharing out an engine's time."""

    prompt: float = Field(gt=0)
    """Of one computed token of a prompt."""
    cached: float = Field(ge=0)
    completion: float = Field(ge=0)


class EndpointCost(Record):
    """`cost.json`: what an endpoint used between launch and stop."""

    schema_version: Literal[1] = 1
    device: Literal["gpu", "cpu"] | None
    """None: an endpoint that we do not run, so that its devices are unknown."""
    devices: int | None
    """GPUs, or CPU cores where there is no GPU."""
    launched_at: datetime
    stopped_at: datetime
    load_seconds: float = 0.0
    """From launch until the server answered."""
    warmup_seconds: float = 0.0
    """Pre-flight."""
    scored_seconds: float = 0.0
    """While at least one scored call was in flight."""
    idle_seconds: float = 0.0
    drain_seconds: float = 0.0
    """From the end of the last trial until the process was gone."""
    restarts: int = 0
    price_per_device_hour: float | None = None
    currency: str | None = None
    price_date: str | None = None
    price_source: str | None = None
    energy_joules: float | None = None
    """Of the GPUs' boards from launch to exit, without the rest of the machine; None: no counter."""
    list_price: ListPrice | None = None
    """What an API would ask for the same tokens."""
    token_weights: TokenWeights | None = None
    """As the run file states them."""

    @property
    def device_hours(self) -> float | None:
        """Devices times wall time from launch to stop."""
        if self.devices is None:
            return None
        return self.devices * (self.stopped_at - self.launched_at).total_seconds() / 3600

    @property
    def price(self) -> float | None:
        """In `currency`; None where no price was given."""
        if self.price_per_device_hour is None or self.device_hours is None:
            return None
        return self.price_per_device_hour * self.device_hours
