"""The numbering of a byte stream's chunks: whatever is lost, repeated or reordered, no gap passes unnoticed."""

from contextlib import suppress

import pytest
from clusterra_runtime.nats.byte_stream.numbering import MAX_CREDITS, Arrivals, ChunkLost, Credits, Departures
from hypothesis import given
from hypothesis import strategies as st

CHUNKS = st.lists(st.binary(min_size=1, max_size=4), max_size=8)


def sent(chunks: list[bytes]) -> list[tuple[int, bytes, bool]]:
    """The messages of a sender: its chunks and its end."""
    departures = Departures()
    messages = [(departures.next(), chunk, False) for chunk in chunks]
    return [*messages, (departures.next(end=True), b"", True)]


def received(messages: list[tuple[int, bytes, bool]]) -> tuple[bytes, bool]:
    """What a receiver has until a chunk is lost, and whether it believes that this is all."""
    arrivals, data = Arrivals(), b""
    with suppress(ChunkLost):
        for number, chunk, end in messages:
            arrivals.take(number, end=end)
            data += chunk
    return data, arrivals.ended


@given(CHUNKS)
def test_what_arrives_in_order_is_whole(chunks: list[bytes]) -> None:
    messages = sent(chunks)

    assert received(messages) == (b"".join(chunks), True)


@given(CHUNKS, st.data())
def test_what_is_lost_or_reordered_is_never_taken_for_the_whole(chunks: list[bytes], data: st.DataObject) -> None:
    messages = sent(chunks)
    arriving = data.draw(st.lists(st.sampled_from(messages), max_size=2 * len(messages)))

    got, ended = received(arriving)

    assert b"".join(chunks).startswith(got)
    assert not ended or got == b"".join(chunks)


@given(CHUNKS, st.data())
def test_a_lost_answer_is_never_taken_for_the_whole(chunks: list[bytes], data: st.DataObject) -> None:
    """Answers as the edge gives them: between chunks there are empty ones, which repeat the last number."""
    answers: list[tuple[int, bytes, bool]] = []
    for message in sent(chunks):
        last = answers[-1][0] if answers else 0
        answers += [(last, b"", False)] * data.draw(st.integers(0, 2))
        answers.append(message)
    answers += [answers[-1]] * data.draw(st.integers(0, 2))
    kept = [answer for answer in answers if data.draw(st.integers(0, 4))]
    arrivals, got = Arrivals(), b""

    with suppress(ChunkLost):
        for number, chunk, end in kept:
            arrivals.take_answer(number, empty=not chunk, end=end)
            got += chunk

    assert b"".join(chunks).startswith(got)
    assert not arrivals.ended or got == b"".join(chunks)


def test_nothing_follows_the_end() -> None:
    departures = Departures()
    departures.next(end=True)

    with pytest.raises(ChunkLost):
        departures.next()


@given(st.lists(st.integers(0, 100)))
def test_credits_stay_within_their_bounds(sizes: list[int]) -> None:
    credit = Credits()

    for size in sizes:
        credit.received(size, 100)

        assert 1 <= credit.wanted <= MAX_CREDITS


def test_credits_grow_while_chunks_are_full_and_fall_when_none_come() -> None:
    credit = Credits()

    for _ in range(5):
        credit.received(100, 100)
    grown = credit.wanted
    credit.received(0, 100)

    assert (grown, credit.wanted) == (MAX_CREDITS, 1)
