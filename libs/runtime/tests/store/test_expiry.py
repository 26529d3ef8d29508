"""Expired items are absent to every operation."""

import pytest
from clusterra_runtime.store.condition import Absent, Present, VersionIs, at_most
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.store import Check, ConditionFailed, Delete, Put, Store, TransactionCancelled, Update

from .conftest import JOBS, KEY, NOW, Clock, put


async def test_an_expired_item_is_absent_to_every_operation(store: Store, clock: Clock) -> None:
    for sk in ("a", "b", "c"):
        await put(store, Key("p", sk), expires_at=NOW + 10, state="s", since=sk)
    await put(store, Key("p", "kept"), expires_at=NOW + 11)

    assert len((await store.query(JOBS, "p")).items) == 4

    clock.now = NOW + 10

    assert await store.get(JOBS, Key("p", "a")) is None
    assert [item.key.sk for item in (await store.query(JOBS, "p")).items] == ["kept"]
    assert [item.key.sk for item in (await store.query(JOBS, "p", limit=1)).items] == ["kept"]
    with pytest.raises(ConditionFailed) as failed:
        await store.write(Update(JOBS, Key("p", "a"), set={"x": 1}, condition=VersionIs(1)))
    assert failed.value.current is None
    with pytest.raises(ConditionFailed):
        await store.delete(Delete(JOBS, Key("p", "a"), Present()))
    with pytest.raises(TransactionCancelled) as cancelled:
        await store.transact([Check(JOBS, Key("p", "a"), Present()), Put(JOBS, KEY, {}, Absent())], token="t")
    assert cancelled.value.reasons[0] is not None
    assert cancelled.value.reasons[0].current is None
    assert await store.get(JOBS, KEY) is None


async def test_a_new_item_inherits_nothing_from_an_expired_one(store: Store, clock: Clock) -> None:
    for sk in ("put", "update", "delete", "transacted put", "transacted update"):
        await put(store, Key("p", sk), expires_at=NOW + 10, usage=100, old=True)
    clock.now = NOW + 20

    assert await put(store, Key("p", "put"), fresh=1) == Item(Key("p", "put"), {"fresh": 1}, 1)

    updated = await store.write(Update(JOBS, Key("p", "update"), add={"usage": 1}, condition=at_most("usage", 4)))

    assert updated == Item(Key("p", "update"), {"usage": 1}, 1)

    await store.delete(Delete(JOBS, Key("p", "delete")))
    await store.transact(
        [
            Put(JOBS, Key("p", "transacted put"), {"fresh": 2}, Absent(), expires_at=NOW + 30),
            Update(JOBS, Key("p", "transacted update"), add={"usage": 2}),
            Check(JOBS, Key("p", "delete"), Absent()),
        ],
        token="t",
    )

    assert (await store.query(JOBS, "p")).items == (
        Item(Key("p", "put"), {"fresh": 1}, 1),
        Item(Key("p", "transacted put"), {"fresh": 2}, 1, NOW + 30),
        Item(Key("p", "transacted update"), {"usage": 2}, 1),
        Item(Key("p", "update"), {"usage": 1}, 1),
    )


async def test_an_update_can_change_the_expiry(store: Store, clock: Clock) -> None:
    await put(store, expires_at=NOW + 10)
    item = await store.write(Update(JOBS, KEY, set={"a": 1}))

    assert item.expires_at == NOW + 10

    item = await store.write(Update(JOBS, KEY, set={"a": 1}, expires_at=NOW + 50))
    clock.now = NOW + 20

    assert await store.get(JOBS, KEY) == item == Item(KEY, {"a": 1}, 3, NOW + 50)

    clock.now = NOW + 50

    assert await store.get(JOBS, KEY) is None
