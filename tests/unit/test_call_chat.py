"""What is read out of answers on the side."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackbench.gateway.chat import BodyReader, NoReader, StreamReader, reader_for

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def event(value):
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def delta(finish=None, **fields):
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def call_part(index, **function):
    return delta(tool_calls=[{"index": index, "function": function}])


WHOLE = b"".join(
    [
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(content="Grüße, 世界 🎉"),
        call_part(0, name="bash", arguments=""),
        call_part(0, arguments='{"command": "ls"}'),
        call_part(1, name="submit", arguments="{}"),
        delta(finish="tool_calls"),
        event({"choices": [], "usage": USAGE}),
        b"data: [DONE]\n\n",
    ]
)


def read(*pieces):
    reader = StreamReader()
    counts = [reader.feed(piece) for piece in pieces]
    reader.end()
    return reader.reading, sum(counts)


def test_a_stream_tells_its_tokens_finish_and_calls():
    reading, pieces = read(WHOLE)
    assert pieces == 5
    assert (reading.prompt_tokens, reading.cached_tokens) == (100, 64)
    assert (reading.completion_tokens, reading.reasoning_tokens) == (7, 3)
    assert (reading.finish_reason, reading.tool_calls, reading.error) == ("tool_calls", 2, None)


@given(st.lists(st.integers(min_value=0, max_value=len(WHOLE))))
def test_cuts_inside_of_characters_change_nothing(places):
    bounds = [0, *sorted(places), len(WHOLE)]
    pieces = [WHOLE[a:b] for a, b in itertools.pairwise(bounds)]
    assert read(*pieces) == read(WHOLE)


def test_a_stream_is_complete_with_its_last_event_and_what_follows_is_ignored():
    reader = StreamReader()
    reader.feed(WHOLE)
    assert reader.is_complete
    assert reader.feed(delta(content="late")) == 0


def test_an_error_inside_a_stream_is_found():
    reading, pieces = read(
        delta(content="a"), event({"error": {"message": "died", "code": 500}}), b"data: [DONE]\n\n"
    )
    assert (reading.error, pieces) == ("died", 1)


def test_a_stream_that_stops_short_is_an_error():
    reading, _ = read(delta(content="a"))
    assert "before the answer was finished" in reading.error


@pytest.mark.parametrize("data", [b"{broken", b"7", b"\xff\xfe", b"[" * 100_000])
def test_an_event_that_is_no_object_is_an_error(data):
    reading, _ = read(b"data: " + data + b"\n\n", delta(finish="stop"))
    assert "no JSON object" in reading.error
    assert len(reading.error) < 1000
    assert reading.finish_reason == "stop"


def test_a_stream_without_usage_leaves_the_tokens_unknown():
    reading, _ = read(delta(content="a", finish="stop"), b"data: [DONE]\n\n")
    assert reading.prompt_tokens is None
    assert reading.error is None


@pytest.mark.parametrize(
    "usage", [None, [], {"prompt_tokens": "7"}, {"prompt_tokens": -1}, {"prompt_tokens": True}]
)
def test_counts_that_are_none_stay_unknown(usage):
    reading, _ = read(event({"choices": [], "usage": usage}), delta(finish="stop"))
    assert reading.prompt_tokens is None


def body(value, status=200):
    reader = BodyReader(is_success=status == 200)
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    assert reader.feed(raw[:10]) == 0
    reader.feed(raw[10:])
    reader.end()
    return reader.reading


def test_an_unstreamed_answer_tells_the_same():
    message = {"content": "a", "tool_calls": [{"id": "1"}, {"id": "2"}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reading = body({"choices": [choice], "usage": USAGE})
    assert (reading.prompt_tokens, reading.cached_tokens, reading.tool_calls) == (100, 64, 2)
    assert (reading.finish_reason, reading.error) == ("tool_calls", None)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"error": {"message": "too long", "type": "BadRequestError"}}, "too long"),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"object": "error", "message": "old shape"}, "old shape"),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"", "no bytes"),
    ],
)
def test_errors_are_read_in_every_shape(value, said):
    assert body(value, status=500).error == said


@pytest.mark.parametrize("value", [b"", b"hello", b"[]", {}, {"choices": []}])
def test_a_success_without_an_answer_is_an_error(value):
    assert body(value).error.startswith("not a chat completion")


def test_an_error_inside_a_whole_success_is_found():
    assert body({"error": {"message": "died"}}).error == "died"


def test_a_body_beyond_the_bound_stays_unread():
    reader = BodyReader(is_success=True)
    for _ in range(17):
        reader.feed(b" " * 1024 * 1024)
    reader.end()
    assert reader.reading.error is None
    assert sum(map(len, reader._parts)) == 0


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (200, {"Content-Type": "text/event-stream; charset=utf-8"}, StreamReader),
        (200, {"Content-Type": "application/json"}, BodyReader),
        (500, {"Content-Type": "text/event-stream"}, BodyReader),
        (200, {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}, NoReader),
        (200, {}, BodyReader),
    ],
)
def test_the_reader_fits_the_answer(status, headers, kind):
    assert type(reader_for(status, headers)) is kind
