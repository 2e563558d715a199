"""What a profile's policy makes of a request."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rackbench.gateway import Policy
from rackbench.gateway.policy import apply

TEXT = st.text("ab1é🎉", max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["model", "stream", "stream_options", "messages", "max_tokens", "max_completion_tokens", "x"]
)
STRICT = Policy(
    model="kimi",
    force={"temperature": 1.0},
    default={"top_p": 0.9},
    output_tokens=100,
    drop_fields=("x",),
    keep_reasoning=False,
)


@given(st.dictionaries(NAMES, JSON))
def test_any_request_obeys_and_stays_obedient(body):
    before = copy.deepcopy(body)
    new, changes = apply(STRICT, body)
    assert body == before
    assert (new == body) == (not changes)
    assert new["model"] == "kimi"
    assert new["temperature"] == 1.0
    assert "x" not in new
    caps = [new[name] for name in ("max_tokens", "max_completion_tokens") if name in new]
    assert all(cap is None or (type(cap) is int and 0 <= cap <= 100) for cap in caps)
    assert any(cap is not None for cap in caps)
    assert apply(STRICT, new) == (new, ())


def test_without_a_policy_nothing_changes():
    body = {"model": "m", "messages": [], "stream": False}
    assert apply(Policy(), body) == (body, ())


def test_forced_parameters_win_and_defaults_give_way():
    policy = Policy(force={"temperature": 0.6}, default={"top_p": 0.9, "seed": 1})
    new, changes = apply(policy, {"temperature": 0, "top_p": 0.5})
    assert new == {"temperature": 0.6, "top_p": 0.5, "seed": 1}
    assert changes == ("temperature: 0 → 0.6", "seed: set to 1")


def test_a_number_does_not_pass_for_a_boolean():
    assert apply(Policy(force={"echo": True}), {"echo": 1})[0]["echo"] is True


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"max_tokens": 100}),
        ({"max_tokens": 50}, {"max_tokens": 50}),
        ({"max_tokens": 500}, {"max_tokens": 100}),
        ({"max_tokens": None}, {"max_tokens": 100}),
        ({"max_completion_tokens": 500}, {"max_completion_tokens": 100}),
        ({"max_completion_tokens": 50}, {"max_completion_tokens": 50}),
        (
            {"max_tokens": 500, "max_completion_tokens": 20},
            {"max_tokens": 100, "max_completion_tokens": 20},
        ),
        ({"max_tokens": "500"}, {"max_tokens": 100}),
        ({"max_tokens": -1}, {"max_tokens": 100}),
    ],
)
def test_the_output_cap_cannot_be_evaded(body, expected):
    assert apply(Policy(output_tokens=100), body)[0] == expected


def test_a_stream_is_asked_for_its_usage():
    new, changes = apply(Policy(), {"stream": True, "stream_options": {"other": 1}})
    assert new["stream_options"] == {"other": 1, "include_usage": True}
    assert changes == ("stream_options.include_usage: set to true",)
    assert apply(Policy(include_usage=False), {"stream": True}) == ({"stream": True}, ())


def test_earlier_reasoning_goes_or_stays_as_told():
    messages = [
        {"role": "user", "content": "q", "reasoning_content": "not an answer's"},
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        {"role": "assistant", "content": "b", "reasoning": "r"},
    ]
    new, changes = apply(Policy(keep_reasoning=False), {"messages": messages})
    assert new["messages"][0] == messages[0]
    assert new["messages"][1:] == [
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    assert changes == ("reasoning of 2 earlier answers: dropped",)
    assert apply(Policy(), {"messages": messages})[1] == ()


def test_what_is_told_of_a_change_is_short():
    (change,) = apply(Policy(model="kimi"), {"model": "x" * 10_000})[1]
    assert len(change) < 200


@pytest.mark.parametrize("name", ["messages", "model", "stream", "stream_options"])
@pytest.mark.parametrize("place", ["force", "default"])
def test_only_parameters_can_be_forced(place, name):
    with pytest.raises(ValidationError, match=name):
        Policy(**{place: {name: 1}})
