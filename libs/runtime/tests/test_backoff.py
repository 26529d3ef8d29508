"""The pauses between attempts: jitter, a cap, and a new beginning after a success."""

import asyncio

import pytest
from clusterra_runtime.backoff import Backoff
from hypothesis import given
from hypothesis import strategies as st


@given(st.floats(0.01, 5), st.floats(5, 60), st.integers(1, 20))
def test_pauses_grow_with_jitter_up_to_a_cap(first: float, longest: float, attempts: int) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def retry() -> None:
        backoff = Backoff(first, longest)
        for _ in range(attempts):
            await backoff.pause()
        backoff.succeeded()
        await backoff.pause()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "sleep", sleep)
        asyncio.run(retry())

    *growing, anew = pauses
    for number, seconds in enumerate(growing):
        full = min(first * 2**number, longest)
        assert full / 2 <= seconds <= full
    assert anew <= first


async def test_an_attempt_that_lasted_is_no_failure_of_the_same_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    backoff = Backoff(0.01, 0.04)
    for _ in range(5):
        await backoff.pause()
    await asyncio.sleep(0.05)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await backoff.pause()

    assert pauses[0] <= 0.01
