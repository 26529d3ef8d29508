"""Writers that read and change the same item at a time: no change is lost, and nobody tries for ever."""

import asyncio

import pytest
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.optimistic_write import Overtaken, write_optimistically
from clusterra_runtime.store.store import ConditionFailed, Put, Store, StoreUnavailable, TransactionCancelled, Update

from .conftest import JOBS, KEY, put

WRITERS = 4


class Contended(Exception):
    """What the caller says after the last attempt."""


class Overtaking:
    """An attempt that loses to another writer some times before it succeeds."""

    def __init__(self, losses: int, error: Exception) -> None:
        self.calls = 0
        self._losses = losses
        self._error = error

    async def __call__(self) -> str:
        """One attempt."""
        self.calls += 1
        if self.calls <= self._losses:
            raise self._error
        return "written"


REFUSED = ConditionFailed(Put(JOBS, KEY, {}, Absent()), None)


async def test_no_change_of_writers_at_the_same_time_is_lost(store: Store) -> None:
    await put(store, names=[])

    async def add(name: str) -> None:
        async def attempt() -> None:
            item = await store.get(JOBS, KEY)
            assert item is not None
            known = item.attributes["names"]
            assert isinstance(known, list)
            await asyncio.sleep(0)
            await store.write(Update(JOBS, KEY, set={"names": [*known, name]}, condition=VersionIs(item.version)))

        await write_optimistically(attempt, attempts=2 * WRITERS)

    await asyncio.gather(*(add(f"writer-{number}") for number in range(WRITERS)))

    written = await store.get(JOBS, KEY)
    assert written is not None
    names = written.attributes["names"]
    assert isinstance(names, list)
    assert set(names) == {f"writer-{number}" for number in range(WRITERS)}
    assert len(names) == WRITERS


@pytest.mark.parametrize("error", [REFUSED, TransactionCancelled((REFUSED, None)), Overtaken("another was faster")])
async def test_an_attempt_that_was_overtaken_is_made_again(error: Exception) -> None:
    attempt = Overtaking(2, error)

    answer = await write_optimistically(attempt, attempts=3)

    assert answer == "written"
    assert attempt.calls == 3


async def test_after_the_last_attempt_the_callers_error_is_raised() -> None:
    attempt = Overtaking(10, REFUSED)

    with pytest.raises(Contended) as raised:
        await write_optimistically(attempt, contended=Contended(), attempts=3)

    assert attempt.calls == 3
    assert raised.value.__cause__ is REFUSED


async def test_without_an_error_of_the_caller_the_last_refusal_is_raised() -> None:
    attempt = Overtaking(10, REFUSED)

    with pytest.raises(ConditionFailed):
        await write_optimistically(attempt, attempts=2)

    assert attempt.calls == 2


@pytest.mark.parametrize("error", [StoreUnavailable("busy"), ValueError("the change is not allowed")])
async def test_any_other_error_ends_the_attempts(error: Exception) -> None:
    attempt = Overtaking(1, error)

    with pytest.raises(type(error)):
        await write_optimistically(attempt, contended=Contended())

    assert attempt.calls == 1
