"""The closed list of outcomes: what ended an attempt, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Outcome(StrEnum):
    """What an attempt is worth to a solve rate."""

    SOLVED = "solved"
    UNSOLVED = "unsolved"
    VOID = "void"
    UNSUPPORTED = "unsupported"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Why an attempt ended as it did; `solved` and `cancelled` need no reason."""

    WRONG = "wrong"
    AGENT_TIMEOUT = "agent_timeout"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105  # a budget, not a secret
    CONTEXT_LIMIT = "context_limit"
    TRUNCATED = "truncated"
    REFUSAL = "refusal"
    AGENT_ERROR = "agent_error"
    TAMPERED = "tampered"

    BUILD = "build"
    SANDBOX = "sandbox"
    ENDPOINT = "endpoint"
    HARNESS_SETUP = "harness_setup"
    NO_MODEL_CALL = "no_model_call"
    VERIFIER = "verifier"
    DISK = "disk"
    RUNNER = "runner"

    GPU = "gpu"
    ARCHITECTURE = "architecture"
    COMPOSE = "compose"
    RESOURCES = "resources"


@dataclass(frozen=True, slots=True)
class Rule:
    """What one reason means."""

    outcome: Outcome
    graded: bool
    """The verifier still ran: what was achieved by then counts."""
    counted: bool
    """The attempt stands in the denominator of the solve rate."""
    retried: bool
    """A new attempt may follow, up to the limit fixed before the run."""


_GRADED = Rule(Outcome.UNSOLVED, graded=True, counted=True, retried=False)
_FAULT = Rule(Outcome.VOID, graded=False, counted=False, retried=True)
_LISTED = Rule(Outcome.UNSUPPORTED, graded=False, counted=False, retried=False)

RULES: Mapping[Reason, Rule] = MappingProxyType(
    {
        Reason.WRONG: _GRADED,
        Reason.AGENT_TIMEOUT: _GRADED,
        Reason.STEP_LIMIT: _GRADED,
        Reason.TOKEN_LIMIT: _GRADED,
        Reason.CONTEXT_LIMIT: _GRADED,
        Reason.TRUNCATED: _GRADED,
        Reason.REFUSAL: _GRADED,
        Reason.AGENT_ERROR: _GRADED,
        # An attempt that forged its reward counts, but its reward is not believed.
        Reason.TAMPERED: Rule(Outcome.UNSOLVED, graded=False, counted=True, retried=False),
        Reason.BUILD: _FAULT,
        Reason.SANDBOX: _FAULT,
        Reason.ENDPOINT: _FAULT,
        Reason.HARNESS_SETUP: _FAULT,
        Reason.NO_MODEL_CALL: _FAULT,
        Reason.VERIFIER: _FAULT,
        Reason.DISK: _FAULT,
        Reason.RUNNER: _FAULT,
        Reason.GPU: _LISTED,
        Reason.ARCHITECTURE: _LISTED,
        Reason.COMPOSE: _LISTED,
        Reason.RESOURCES: _LISTED,
    }
)


def is_counted(outcome: Outcome, reason: Reason | None) -> bool:
    """Whether an attempt stands in the denominator of the solve rate."""
    return outcome is Outcome.SOLVED or (reason is not None and RULES[reason].counted)


def is_retried(outcome: Outcome, reason: Reason | None) -> bool:
    """Whether a new attempt may follow within the same run."""
    return outcome is Outcome.VOID and reason is not None and RULES[reason].retried
