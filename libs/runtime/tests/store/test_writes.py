"""Single writes: versions, updates, deletions and their concurrency."""

import asyncio

import pytest
from clusterra_runtime.store.condition import Present, VersionIs, at_most, compare
from clusterra_runtime.store.item import InvalidItem, Item, Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, StoreError, Update

from .conftest import JOBS, KEY, QUOTAS, put


async def test_versions_count_writes(store: Store) -> None:
    await put(store, state="pending")
    updated = await store.write(Update(JOBS, KEY, set={"state": "running"}, condition=VersionIs(1)))

    assert (updated.version, updated.attributes) == (2, {"state": "running"})

    replaced = await store.write(Put(JOBS, KEY, {"a": 1}, VersionIs(2)))

    assert await store.get(JOBS, KEY) == replaced == Item(KEY, {"a": 1}, 3)

    kept = await store.write(Update(JOBS, KEY, set={"b": 2}, keep_version=True))

    assert await store.get(JOBS, KEY) == kept == Item(KEY, {"a": 1, "b": 2}, 3)


async def test_an_update_changes_only_the_named_attributes(store: Store) -> None:
    await put(store, keep="k", drop="d", count=1, log=["a"])
    item = await store.write(
        Update(
            JOBS,
            KEY,
            set={"new": {"x": 1}},
            add={"count": 2, "price": 0.1},
            append={"log": ["b", "c"], "tags": [1]},
            remove=("drop", "never there"),
        )
    )

    assert item == Item(
        KEY,
        {"keep": "k", "new": {"x": 1}, "count": 3, "price": 0.1, "log": ["a", "b", "c"], "tags": [1]},
        version=2,
    )
    assert await store.get(JOBS, KEY) == item


async def test_an_update_creates_an_absent_item(store: Store) -> None:
    item = await store.write(Update(JOBS, KEY, add={"count": 2}))
    assert await store.get(JOBS, KEY) == item == Item(KEY, {"count": 2}, 1)


async def test_sums_of_decimal_fractions_are_exact(store: Store) -> None:
    for _ in range(10):
        item = await store.write(Update(JOBS, KEY, add={"cost": 0.1}))
    assert item.attributes == {"cost": 1}


async def test_add_rejects_attributes_that_are_not_numbers(store: Store) -> None:
    await put(store, text="a", flag=True)
    for name in ("text", "flag"):
        with pytest.raises(StoreError):
            await store.write(Update(JOBS, KEY, add={name: 1}))
    assert await store.get(JOBS, KEY) == Item(KEY, {"text": "a", "flag": True}, 1)


def test_an_update_must_not_name_an_attribute_twice() -> None:
    with pytest.raises(InvalidItem):
        Update(JOBS, KEY, set={"a": 1}, add={"a": 1})


async def test_delete_removes_an_item_if_its_condition_holds(store: Store) -> None:
    await put(store, state="running")

    with pytest.raises(ConditionFailed):
        await store.delete(Delete(JOBS, KEY, compare("state", "==", "done")))
    assert await store.get(JOBS, KEY) is not None

    await store.delete(Delete(JOBS, KEY, VersionIs(1)))

    assert await store.get(JOBS, KEY) is None

    await store.delete(Delete(JOBS, KEY))

    with pytest.raises(ConditionFailed):
        await store.delete(Delete(JOBS, KEY, Present()))


async def test_concurrent_updates_do_not_exceed_a_quota(store: Store) -> None:
    async def take() -> bool:
        try:
            await store.write(Update(QUOTAS, Key("acme", "jobs"), add={"usage": 1}, condition=at_most("usage", 9)))
        except ConditionFailed:
            return False
        return True

    assert sum(await asyncio.gather(*(take() for _ in range(16)))) == 10
    assert await store.get(QUOTAS, Key("acme", "jobs")) == Item(Key("acme", "jobs"), {"usage": 10}, 10)


async def test_exactly_one_of_many_concurrent_writers_wins_a_version(store: Store) -> None:
    await put(store, winner=-1)

    async def replace(number: int) -> int | None:
        try:
            await store.write(Put(JOBS, KEY, {"winner": number}, VersionIs(1)))
        except ConditionFailed:
            return None
        return number

    winners = [number for number in await asyncio.gather(*(replace(n) for n in range(16))) if number is not None]

    assert len(winners) == 1
    assert await store.get(JOBS, KEY) == Item(KEY, {"winner": winners[0]}, 2)
