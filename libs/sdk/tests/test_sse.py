"""Events come out of bytes whole, however these are cut."""

import re
from itertools import pairwise

import pytest
from clusterra.http.sse import MAX_EVENT_BYTES, EventParser, EventTooLong, ServerSentEvent
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(st.sampled_from("ab:\n \f\x0b\x1c\u2028\x85é\0"), max_size=12)
ends = st.sampled_from(["\n", "\r\n", "\r"])


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in pairwise(places)]


def parsed(pieces: list[bytes]) -> list[ServerSentEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.add(piece)]


def encoded(text: str, number: int, end: str) -> bytes:
    """An event as the gateway writes it, apart from the line end."""
    return "".join(
        f"{line}{end}" for line in (f"id: {number}", *(f"data: {each}" for each in text.split("\n")), "")
    ).encode()


@given(told=st.lists(st.tuples(texts, ends), max_size=5), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_events_are_the_same_however_they_are_cut(told: list[tuple[str, str]], cuts: list[int]) -> None:
    data = b"".join(encoded(text, number, end) for number, (text, end) in enumerate(told))

    found = parsed(pieces_of(data, cuts))

    assert [event.data for event in found] == [text for text, _ in told]
    assert [event.id for event in found] == [str(number) for number in range(len(told))]


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=8))
def test_any_bytes_are_read_the_same_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    assert parsed(pieces_of(data, cuts)) == parsed([data])


def test_a_line_end_that_is_cut_in_two_hides_no_empty_line() -> None:
    assert parsed([b"data: a\r", b"\n", b"\n"]) == [ServerSentEvent("a", "message", None)]


def test_pings_and_other_fields_are_no_events() -> None:
    assert parsed([b": ping\n\nretry: 1000\n\nid: 5\n\nevent: end\nid: 7\ndata: {}\n\n"]) == [
        ServerSentEvent("{}", "end", "7")
    ]


def test_an_event_that_is_cut_off_is_none() -> None:
    assert parsed([b"id: 1\ndata: a\n\nid: 2\ndata: b\n"]) == [ServerSentEvent("a", "message", "1")]


def test_an_event_has_a_bound() -> None:
    pieces = [b"x" * 100_000] * (MAX_EVENT_BYTES // 100_000 + 2)

    with pytest.raises(EventTooLong, match=re.escape(str(MAX_EVENT_BYTES))):
        parsed(pieces)
