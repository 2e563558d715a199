"""Events come out of a stream the same, however the network cuts it."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rackbench.gateway.sse import SseEvents

TEXT = st.text("a: é世🎉\x0b\x85\u2028", max_size=12)  # some are line ends, but not in this format
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw):
    """Bytes of a stream with its own line ends per line, comments and other fields."""
    lines = []
    for data in draw(st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=6)):
        for line in data:
            if draw(st.booleans()):
                lines.append(draw(st.sampled_from([b": ping", b"event: x", b"id: 1", b"retry:2"])))
            lines.append(b"data: " + line.encode())
        lines.append(b"")
    return b"".join(line + draw(ENDS) for line in lines)


def cut(data, places):
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


def split(pieces, **options):
    events = SseEvents(**options)
    found = [event for piece in pieces for event in events.feed(piece)]
    return found, events.oversized


@given(streams(), st.lists(st.integers(min_value=0)))
def test_any_cut_gives_the_same_events(data, places):
    assert split(cut(data, places)) == split([data])


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0)))
def test_any_cut_of_any_bytes_gives_the_same_events(data, places):
    assert split(cut(data, places), limit_bytes=8) == split([data], limit_bytes=8)


@given(st.lists(TEXT, min_size=1), ENDS)
def test_what_was_put_in_comes_out(texts, end):
    data = b"".join(b"data: " + text.encode() + end + end for text in texts)
    events, _ = split([data[i : i + 1] for i in range(len(data))])
    assert [event.decode() for event in events] == texts


def test_lines_of_one_event_are_joined():
    assert split([b"data: a\ndata:b\n\n"])[0] == [b"a\nb"]


def test_an_unfinished_event_is_none():
    assert split([b"data: a\n"])[0] == []


def test_too_long_an_event_is_passed_over_and_counted():
    found, oversized = split(
        [b"data: ", b"x" * 500, b"x" * 500, b"\n\ndata: short\n\n"], limit_bytes=100
    )
    assert (found, oversized) == ([b"short"], 1)


def test_an_endless_line_takes_bounded_memory():
    events = SseEvents(limit_bytes=1000)
    for _ in range(1000):
        events.feed(b"data: " + b"x" * 1000)
    assert len(events._line) <= 1001
