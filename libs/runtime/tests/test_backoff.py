"""The pauses between attempts: jitter, a cap, and a new beginning after a success."""

import asyncio

import pytest
from clusterra_runtime.backoff import Backoff, retry
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


class Failing:
    """An operation that fails some times before it succeeds."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.attempts = 0
        self.failed = asyncio.Event()
        self._failures = failures
        self._error = error

    async def __call__(self) -> int:
        self.attempts += 1
        if self.attempts <= self._failures:
            self.failed.set()
            raise self._error
        return self.attempts


def quick() -> Backoff:
    return Backoff(0.001, 0.002)


async def test_an_operation_is_tried_again_until_it_succeeds() -> None:
    assert await retry(Failing(5, OSError()), quick(), on=OSError) == 6


async def test_the_last_error_is_raised_after_so_many_attempts() -> None:
    operation = Failing(10, OSError("away"))

    with pytest.raises(OSError, match="away"):
        await retry(operation, quick(), on=OSError, attempts=3)

    assert operation.attempts == 3


async def test_no_attempt_begins_after_the_deadline() -> None:
    operation = Failing(10**6, OSError("away"))

    with pytest.raises(OSError, match="away"):
        await retry(operation, Backoff(10.0, 10.0), on=OSError, seconds=4.9)

    assert operation.attempts == 1


@pytest.mark.parametrize("on", [OSError, lambda error: "worth" in str(error)])
async def test_another_error_is_raised_at_once(on: type[Exception]) -> None:
    operation = Failing(10, ValueError("no use"))

    with pytest.raises(ValueError, match="no use"):
        await retry(operation, quick(), on=on)

    assert operation.attempts == 1


async def test_a_cancelled_operation_is_not_tried_again() -> None:
    operation = Failing(1, OSError())
    retrying = asyncio.create_task(retry(operation, Backoff(60, 60), on=OSError))
    await operation.failed.wait()

    retrying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await retrying

    assert operation.attempts == 1
