"""The archive in the order of the stream: nothing is missed, or the reader is told."""

import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_events.archive import Archive
from clusterra_events.following import MARGIN_SECONDS, Following, Whole
from clusterra_events.retention import DAY_SECONDS, Retention
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Table
from hypothesis import given
from hypothesis import strategies as st

MAIN, OTHER = ClusterRef(tenant="acme", cluster="main"), ClusterRef(tenant="acme", cluster="other")
START = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = Table("events")
DAYS_90 = Retention(90 * DAY_SECONDS)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        yield store


async def kept(store: MemoryStore, positions: Sequence[tuple[int, ClusterRef]], seed: int = 0) -> dict[int, Event]:
    """Events at positions of the stream. They did not happen in the order in which they were published."""
    archive = Archive(store, TABLE, retention=DAYS_90)
    happened = random.Random(seed)
    events = dict[int, Event]()
    for position, ref in positions:
        at = START + timedelta(seconds=happened.randrange(100))
        fact = NodeFact(kind="node.down", node=f"n{position}")
        events[position] = event_of("proxy", ref, fact, version="1", time=at)
        await archive.keep(Subject("event", ref, fact.kind), events[position], position)
    return events


async def followed(
    following: Following, refs: Sequence[ClusterRef], after: int, upto: int, limit: int = 3
) -> list[tuple[int, Event]]:
    found = list[tuple[int, Event]]()
    while after < upto:
        page = await following.read(refs, ReadHistory(follows=after, limit=limit), upto)
        assert page.follows_to is not None
        assert page.follows_to > after
        found += zip(page.positions, page.events, strict=True)
        after = page.follows_to
    return found


@given(
    epochs=st.lists(st.lists(st.integers(1, 40), min_size=1, unique=True), min_size=1, max_size=3),
    after=st.integers(0, 4_000),
    several=st.booleans(),
    seed=st.integers(0, 99),
)
async def test_what_follows_a_position_has_each_later_event_once_over_all_streams(
    epochs: list[list[int]], after: int, several: bool, seed: int
) -> None:
    """Each stream that was made again has higher positions than the one before."""
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        positions = [
            (1_000 * number + each, MAIN if each % 3 else OTHER)
            for number, epoch in enumerate(epochs, start=1)
            for each in sorted(epoch)
        ]
        events = await kept(store, positions, seed)
        following = Following(store, TABLE, DAYS_90, lambda: Whole(0, 9e9))
        upto = positions[-1][0] - 1
        refs = (MAIN, OTHER) if several else (MAIN,)

        found = await followed(following, refs, after, upto)

    expected = [(at, events[at]) for at, ref in positions if after < at <= upto and ref in refs]
    assert found == expected


async def test_a_position_before_the_order_was_kept_is_not_answered(store: MemoryStore) -> None:
    await kept(store, [(number, MAIN) for number in range(1, 20)])
    following = Following(store, TABLE, DAYS_90, lambda: Whole(10, 9e9))

    assert (await following.read((MAIN,), ReadHistory(follows=9), 19)).follows_to is None
    assert len(await followed(following, (MAIN,), 10, 19)) == 9
    unknown = Following(store, TABLE, DAYS_90, lambda: None)
    assert (await unknown.read((MAIN,), ReadHistory(follows=12), 19)).follows_to is None
    assert (await following.read((MAIN,), ReadHistory(follows=12), None)).follows_to is None


async def test_a_position_after_which_a_kind_may_have_expired_is_not_answered(store: MemoryStore) -> None:
    began = 1_800_000_000.0
    clock = [began]
    retention = Retention(90 * DAY_SECONDS, {"scale.decided": 14})
    archive = Archive(store, TABLE, retention=retention, clock=lambda: clock[0])
    following = Following(store, TABLE, retention, lambda: Whole(0, began), clock=lambda: clock[0])
    fact = NodeFact(kind="node.down", node="n")
    for position in range(1, 31):
        told = event_of("proxy", MAIN, fact, version=str(position), time=START)
        await archive.keep(Subject("event", MAIN, fact.kind), told, position)
        clock[0] += DAY_SECONDS

    answered = [
        position
        for position in range(1, 31)
        if (await following.read((MAIN,), ReadHistory(follows=position), 30)).follows_to is not None
    ]

    # Event 1 was archived 30 days ago, and 30 a day ago.
    assert answered == list(range(18, 31))
    assert MARGIN_SECONDS < DAY_SECONDS


async def test_an_event_that_is_published_again_keeps_its_place(store: MemoryStore) -> None:
    archive = Archive(store, TABLE, retention=DAYS_90)
    first = event_of("proxy", MAIN, NodeFact(kind="node.down", node="n"), version="1", time=START)
    again = first.model_copy(update={"time": START + timedelta(hours=1)})
    following = Following(store, TABLE, DAYS_90, lambda: Whole(0, 9e9))

    await archive.keep(Subject("event", MAIN, first.kind), first, 4)
    await archive.keep(Subject("event", MAIN, again.kind), again, 9)

    assert await followed(following, (MAIN,), 0, 10) == [(4, first)]
