"""Rewards: what counts as one, and why the rest does not."""

from __future__ import annotations

import json
import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_tasks import Reward, RewardError, RewardFault, TaskError, read_reward

LIMIT = 64 * 1024
in_range = st.floats(0, 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
keys = st.text(st.characters(categories=["L", "N", "P"]), max_size=20)
scalars = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


def fault_of(**files: bytes) -> RewardFault:
    with pytest.raises(RewardError) as caught:
        read_reward({name.replace("_", "."): content for name, content in files.items()})
    assert len(caught.value.problems) == 1
    assert "\n" not in str(caught.value)
    return caught.value.fault


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1", 1.0),
        (b"0\n", 0.0),
        (b"  0.25\r\n", 0.25),
        (b"1.0", 1.0),
        (b".5", 0.5),
        (b"1.", 1.0),
        (b"+5e-1", 0.5),
        (b"-0", 0.0),
    ],
)
def test_a_number_in_reward_txt(text: bytes, value: float) -> None:
    reward = read_reward({"reward.txt": text, "test-stdout.txt": b"\xff"})
    assert reward == Reward(value, {"reward": value}, "reward.txt")
    assert math.copysign(1, reward.value) == 1


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"\n", b"1 1", b"1\n0", b"one", b"True", b"nan", b"inf", b"-Infinity", b"1e999"),
        *(b"1_0", b"0x1", b"1,0", b"\xff", b"\xef\xbb\xbf1", "１".encode(), b"1\x00", b"50%"),
    ],
)
def test_what_is_no_number_is_no_reward(text: bytes) -> None:
    assert fault_of(reward_txt=text) is RewardFault.UNPARSEABLE


@pytest.mark.parametrize("text", [b"1.0000001", b"-0.1", b"100", b"-1"])
def test_a_reward_lies_between_0_and_1(text: bytes) -> None:
    assert fault_of(reward_txt=text) is RewardFault.OUT_OF_RANGE
    assert fault_of(reward_json=text) is RewardFault.OUT_OF_RANGE
    assert fault_of(reward_json=b'{"reward": %b, "x": 1}' % text) is RewardFault.OUT_OF_RANGE


@pytest.mark.parametrize(
    ("text", "value", "everything"),
    [
        (b"1", 1.0, {"reward": 1.0}),
        (b" 0.5 ", 0.5, {"reward": 0.5}),
        (b'{"reward": 1}', 1.0, {"reward": 1.0}),
        (b'{"seconds": 12.5, "reward": 0}', 0.0, {"seconds": 12.5, "reward": 0.0}),
        (b'{"reward": 0.5, "loss": -3e9}', 0.5, {"reward": 0.5, "loss": -3e9}),
        (b'{"accuracy": 0.75}', 0.75, {"accuracy": 0.75}),
    ],
)
def test_reward_json(text: bytes, value: float, everything: dict[str, float]) -> None:
    assert read_reward({"reward.json": text}) == Reward(value, everything, "reward.json")


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"{}", b"[]", b"[1]", b"null", b"true", b'"1"', b"1 1", b"NaN", b"-Infinity"),
        *(b'{"reward": true}', b'{"reward": null}', b'{"reward": "1"}', b'{"reward": [1]}'),
        *(b'{"reward": {"reward": 1}}', b'{"reward": NaN}', b'{"reward": 1, "x": Infinity}'),
        *(b'{"reward": 1, "x": false}', b'{"reward": 1, "x": 1e999}', b'{"reward": 1' + b"0" * 999),
        b'{"reward": 1' + b"0" * 5000 + b"}",
        b'{"correctness": 1, "performance": 1}',
        b'{"reward": 0, "reward": 1}',
        b'{"reward": 1, "x": 1, "x": 1}',
        b'{"\\ud800": 1}',
        b'{"\\u001b[2J": 1}',
        b"\xff",
        '{"reward": 1}'.encode("utf-16"),
        b"[" * 60_000,
        b'{"reward": ' * 5_000,
    ],
)
def test_what_is_not_clear_is_no_reward(text: bytes) -> None:
    assert fault_of(reward_json=text) is RewardFault.UNPARSEABLE


def test_nothing_is_unknown_and_not_zero() -> None:
    assert fault_of() is RewardFault.MISSING
    assert fault_of(reward_md=b"1") is RewardFault.MISSING


def test_both_files_must_agree() -> None:
    both = {"reward.txt": b"0.5\n", "reward.json": b'{"reward": 0.5, "x": 2}'}
    assert read_reward(both) == Reward(0.5, {"reward": 0.5, "x": 2.0}, "reward.json")
    assert fault_of(reward_txt=b"1", reward_json=b"0") is RewardFault.DISAGREEMENT
    assert fault_of(reward_txt=b"1", reward_json=b"one") is RewardFault.UNPARSEABLE
    assert fault_of(reward_txt=b"", reward_json=b"1") is RewardFault.UNPARSEABLE


def test_a_file_has_a_bound() -> None:
    assert read_reward({"reward.txt": b"1" + b" " * (LIMIT - 1)}).value == 1
    assert fault_of(reward_txt=b"1" + b" " * LIMIT) is RewardFault.TOO_LARGE
    assert fault_of(reward_json=b" " * LIMIT + b"1") is RewardFault.TOO_LARGE


def test_the_error_says_what_was_found_without_driving_the_terminal() -> None:
    with pytest.raises(TaskError, match=r"reward\.txt holds .*\\x1b\[31mred.*exactly one number"):
        read_reward({"reward.txt": b"\x1b[31mred\n"})


def test_the_error_survives_a_process_boundary() -> None:
    with pytest.raises(RewardError) as caught:
        read_reward({"reward.txt": b"2"})
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.fault, again.problems) == (caught.value.fault, caught.value.problems)


@settings(deadline=None)
@given(in_range)
def test_a_reward_comes_back_exactly(value: float) -> None:
    assert read_reward({"reward.txt": repr(value).encode()}).value == value
    assert read_reward({"reward.json": json.dumps({"score": value}).encode()}).value == value


@settings(deadline=None)
@given(in_range, st.dictionaries(keys, finite))
def test_all_keys_are_kept(value: float, others: dict[str, float]) -> None:
    written = others | {"reward": value}
    reward = read_reward({"reward.json": json.dumps(written).encode()})
    assert (reward.value, reward.all) == (value, written)


@settings(deadline=None)
@given(st.binary(max_size=40), st.sampled_from(["reward.txt", "reward.json"]))
def test_any_bytes_are_a_reward_or_an_error(content: bytes, name: str) -> None:
    try:
        reward = read_reward({name: content})
    except RewardError:
        return
    assert 0 <= reward.value <= 1


@settings(deadline=None)
@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_is_a_reward_or_an_error(content: object) -> None:
    try:
        reward = read_reward({"reward.json": json.dumps(content).encode()})
    except RewardError:
        return
    assert 0 <= reward.value <= 1
    assert all(math.isfinite(number) for number in reward.all.values())
