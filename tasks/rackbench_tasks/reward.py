"""The reward that a verifier wrote, read strictly: what is not clear is a fault, never a zero."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_LIMIT_BYTES = 64 * 1024
_SHOWN = 80


class RewardFault(StrEnum):
    """Why there is no reward."""

    MISSING = "missing"
    UNPARSEABLE = "unparseable"
    OUT_OF_RANGE = "out_of_range"
    DISAGREEMENT = "disagreement"
    TOO_LARGE = "too_large"


class RewardError(ValueError):
    """The verifier's output holds no usable reward."""

    def __init__(self, fault: RewardFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Reward:
    """A verifier's judgement, from 0 to 1."""

    value: float
    all: Mapping[str, float]
    """Every number of a reward.json; else the one number as `reward`."""


def read_reward(files: Mapping[str, bytes]) -> Reward:
    """Read `reward.txt` and `reward.json`, of which one is enough and two must agree.

    Raises RewardError.
    """
    text, data = files.get("reward.txt"), files.get("reward.json")
    if text is None and data is None:
        raise RewardError(
            RewardFault.MISSING, "the verifier wrote neither reward.txt nor reward.json"
        )
    for name, content in (("reward.txt", text), ("reward.json", data)):
        if content is not None and len(content) > _LIMIT_BYTES:
            raise RewardError(
                RewardFault.TOO_LARGE,
                f"{name} holds {len(content):,} bytes; {_LIMIT_BYTES:,} at most",
            )
    plain = _from_text(text) if text is not None else None
    rich = _from_json(data) if data is not None else None
    if plain is not None and rich is not None and plain.value != rich.value:
        raise RewardError(
            RewardFault.DISAGREEMENT,
            f"reward.txt says {plain.value:g}, reward.json says {rich.value:g}",
        )
    found = rich or plain
    assert found is not None
    if not 0 <= found.value <= 1:
        raise RewardError(
            RewardFault.OUT_OF_RANGE, f"the reward is {found.value:g}; it must be from 0 to 1"
        )
    return found


def _from_text(content: bytes) -> Reward:
    shown = content[:_SHOWN].decode(errors="replace").strip()
    try:
        # Python's float also takes underscores and other scripts' digits; a verifier does not.
        value = float(content.decode("ascii").strip().replace("_", "x"))
    except ValueError as error:
        raise RewardError(
            RewardFault.UNPARSEABLE, f"reward.txt is not one number: {shown!r}"
        ) from error
    return Reward(_finite("reward.txt", value), {"reward": value})


def _from_json(content: bytes) -> Reward:
    try:
        value = json.loads(content, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as error:
        raise RewardError(RewardFault.UNPARSEABLE, f"reward.json is not JSON: {error}") from error
    if not isinstance(value, dict):
        number = _number("reward.json", value)
        return Reward(number, {"reward": number})
    numbers = {key: _number(f"reward.json, key {key!r}", item) for key, item in value.items()}
    if "reward" in numbers:
        return Reward(numbers["reward"], numbers)
    if len(numbers) == 1:
        return Reward(next(iter(numbers.values())), numbers)
    raise RewardError(
        RewardFault.UNPARSEABLE,
        f"reward.json holds {len(numbers)} numbers, and none is called `reward`",
    )


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _number(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RewardError(
            RewardFault.UNPARSEABLE, f"{where}: {str(value)[:_SHOWN]!r} is not a number"
        )
    try:
        return _finite(where, float(value))
    except OverflowError as error:
        raise RewardError(RewardFault.OUT_OF_RANGE, f"{where}: too large a number") from error


def _finite(where: str, value: float) -> float:
    if not math.isfinite(value):
        raise RewardError(RewardFault.UNPARSEABLE, f"{where}: {value} is not a finite number")
    return value
