"""The reward that a verifier wrote, read strictly: what is not clear is not a reward."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rackbench_tasks.problem import TaskError, one_line, shown

TEXT_FILE = "reward.txt"
JSON_FILE = "reward.json"
LIMIT_BYTES = 64 * 1024
PRIMARY_KEY = "reward"

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SHOWN_CHARACTERS = 60


class RewardFault(StrEnum):
    """Why there is no reward."""

    MISSING = "missing"
    UNPARSEABLE = "unparseable"
    OUT_OF_RANGE = "out_of_range"
    DISAGREEMENT = "disagreement"
    TOO_LARGE = "too_large"


class RewardError(TaskError):
    """The verifier left no reward that can be read; unknown, which is never zero."""

    def __init__(self, fault: RewardFault, problem: str) -> None:
        super().__init__(problem)
        self.fault = fault

    def __reduce__(self) -> tuple[type[RewardError], tuple[RewardFault, str]]:
        return type(self), (self.fault, str(self))


@dataclass(frozen=True, slots=True)
class Reward:
    """What a verifier wrote."""

    value: float
    """The primary reward, 0 to 1."""
    all: Mapping[str, float]
    """Every number that it wrote, by key; those beside the primary one may be of any size."""
    source: str
    """Name of the file it was read from."""


def read_reward(files: Mapping[str, bytes]) -> Reward:
    """Read what a verifier left: `reward.json`, `reward.txt`, or both where they agree.

    `files` maps names in the verifier's folder to contents; other names are not looked at.
    Raises RewardError.
    """
    found = [
        read(_text(name, files[name]))
        for name, read in ((JSON_FILE, _read_json), (TEXT_FILE, _read_text))
        if name in files
    ]
    if not found:
        raise RewardError(
            RewardFault.MISSING,
            f"the verifier wrote neither {TEXT_FILE} nor {JSON_FILE}; its exit code is no reward",
        )
    first = found[0]
    for other in found[1:]:
        if other.value != first.value:
            raise RewardError(
                RewardFault.DISAGREEMENT,
                f"{first.source} says {first.value!r}, {other.source} says {other.value!r}; "
                "write one of them, or the same in both",
            )
    return first


def _read_text(text: str) -> Reward:
    if not _NUMBER.fullmatch(text.strip()):
        raise _unparseable(TEXT_FILE, f"holds {_cut(text)}, expected exactly one number")
    value = _in_range(TEXT_FILE, PRIMARY_KEY, _finite(TEXT_FILE, PRIMARY_KEY, float(text)))
    return Reward(value, {PRIMARY_KEY: value}, TEXT_FILE)


def _read_json(text: str) -> Reward:
    try:
        content = json.loads(
            text,
            object_pairs_hook=_without_twins,
            parse_constant=_refuse_constant,
            parse_int=float,  # an integer of any length, without Python's limit on digits
        )
    except RewardError:
        raise
    except (ValueError, RecursionError) as error:
        raise _unparseable(JSON_FILE, f"is not JSON: {error}") from error
    if isinstance(content, float):
        content = {PRIMARY_KEY: content}
    if not isinstance(content, dict):
        raise _unparseable(JSON_FILE, f"holds {_cut(text)}, expected a number or a flat object")
    rewards = {key: _finite(JSON_FILE, key, value) for key, value in content.items()}
    primary = PRIMARY_KEY if PRIMARY_KEY in rewards else next(iter(rewards), "")
    if primary != PRIMARY_KEY and len(rewards) != 1:
        keys = ", ".join(rewards) or "none"
        raise _unparseable(
            JSON_FILE, f"has no key {PRIMARY_KEY!r} and not one key alone (keys: {_cut(keys)})"
        )
    rewards[primary] = _in_range(JSON_FILE, primary, rewards[primary])
    return Reward(rewards[primary], rewards, JSON_FILE)


def _text(name: str, content: bytes) -> str:
    if len(content) > LIMIT_BYTES:
        raise RewardError(
            RewardFault.TOO_LARGE,
            f"{name} holds {len(content)} bytes, more than the {LIMIT_BYTES} that are read",
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unparseable(name, f"is not UTF-8: {error.reason} at byte {error.start}") from error


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content: dict[str, object] = {}
    for key, value in pairs:
        if key in content:
            raise _unparseable(JSON_FILE, f"has the key {_cut(key)} twice")
        if not key.isprintable():
            raise _unparseable(JSON_FILE, f"has an unprintable key, {key!a}")
        content[key] = value
    return content


def _refuse_constant(name: str) -> float:
    raise _unparseable(JSON_FILE, f"holds {name}, which is not finite")


def _finite(name: str, key: str, value: object) -> float:
    if not isinstance(value, float):
        raise _unparseable(name, f"has {shown(value)} for {_cut(key)}, expected a number")
    if not math.isfinite(value):
        raise _unparseable(name, f"has a number for {_cut(key)} that is not finite")
    return value


def _in_range(name: str, key: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise RewardError(
            RewardFault.OUT_OF_RANGE, f"{name}: {_cut(key)} is {value!r}, expected 0 to 1"
        )
    return value + 0.0  # -0.0 is 0.0


def _unparseable(name: str, problem: str) -> RewardError:
    return RewardError(RewardFault.UNPARSEABLE, f"{name} {problem}")


def _cut(text: str) -> str:
    text = one_line(text.strip())
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
