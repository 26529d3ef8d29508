"""Callers of one key share one running request, and none of them can spoil it for the others."""

import asyncio
import gc
from typing import Any

import pytest
from clusterra_runtime.single_flight import SingleFlight
from hypothesis import given
from hypothesis import strategies as st


class Upstream:
    """Answers when it is told to, and counts what it was asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = 0
        self.error = error
        self.begun, self.answer = asyncio.Event(), asyncio.Event()

    async def request(self) -> int:
        self.asked += 1
        number = self.asked
        self.begun.set()
        await self.answer.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_callers_at_the_same_time_share_a_request_and_a_later_one_begins_another() -> None:
    flight, upstream = SingleFlight[str, int](), Upstream()
    waiting = [asyncio.create_task(flight.get("a", upstream.request)) for _ in range(3)]
    await upstream.begun.wait()

    upstream.answer.set()
    answers = [*await asyncio.gather(*waiting), await flight.get("a", upstream.request)]

    assert answers == [1, 1, 1, 2]


async def test_keys_share_nothing() -> None:
    flight, upstream = SingleFlight[str, int](), Upstream()
    upstream.answer.set()

    answers = await asyncio.gather(*(flight.get(key, upstream.request) for key in "ab"))

    assert answers == [1, 2]


@given(st.sets(st.integers(0, 4)), st.booleans())
def test_who_leaves_takes_no_answer_from_the_others(leaving: set[int], fails: bool) -> None:
    """The first caller, whose call began the request, included."""

    async def played() -> tuple[int, list[Any]]:
        flight, upstream = SingleFlight[str, int](), Upstream(ValueError("no") if fails else None)
        waiting = [asyncio.create_task(flight.get("a", upstream.request)) for _ in range(5)]
        await upstream.begun.wait()
        for number in leaving:
            waiting[number].cancel()
        await asyncio.wait([waiting[number] for number in leaving] or [asyncio.create_task(asyncio.sleep(0))])
        upstream.answer.set()
        return upstream.asked, await asyncio.gather(*waiting, return_exceptions=True)

    asked, answers = asyncio.run(played())

    assert asked == 1
    for number, answer in enumerate(answers):
        expected = asyncio.CancelledError if number in leaving else ValueError if fails else int
        assert isinstance(answer, expected), answers


async def test_an_error_is_not_kept() -> None:
    flight, upstream = SingleFlight[str, int](), Upstream(ValueError("no"))
    upstream.answer.set()
    with pytest.raises(ValueError, match="no"):
        await flight.get("a", upstream.request)

    upstream.error = None
    answer = await flight.get("a", upstream.request)

    assert answer == 2


async def test_an_error_that_nobody_waits_for_is_not_reported() -> None:
    flight, upstream = SingleFlight[str, int](), Upstream(ValueError("no"))
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    waiting = asyncio.create_task(flight.get("a", upstream.request))
    await upstream.begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])

    upstream.answer.set()
    upstream.error = None
    while await flight.get("a", upstream.request) == 1:
        pass
    gc.collect()

    assert reported == []


async def test_closing_ends_the_running_requests() -> None:
    flight, upstream = SingleFlight[str, int](), Upstream()
    waiting = asyncio.create_task(flight.get("a", upstream.request))
    await upstream.begun.wait()

    await flight.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
