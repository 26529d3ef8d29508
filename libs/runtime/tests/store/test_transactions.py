"""Transactions: all writes or none, once per token."""

import asyncio

import pytest
from clusterra_runtime.store.condition import Absent, Present, VersionIs, at_most, compare
from clusterra_runtime.store.item import InvalidItem, Item, Key
from clusterra_runtime.store.store import Check, Delete, Put, Store, TokenReused, TransactionCancelled, Update, Write

from .conftest import JOBS, KEY, NOW, QUOTAS, Clock, put


async def test_a_transaction_applies_all_writes(store: Store) -> None:
    await put(store, Key("p", "old"))
    await put(store, Key("p", "checked"), state="ok")
    await store.transact(
        [
            Put(JOBS, Key("p", "new"), {"a": 1}, Absent()),
            Delete(JOBS, Key("p", "old"), VersionIs(1)),
            Update(QUOTAS, Key("acme", "cpus"), add={"usage": 4}, condition=at_most("usage", 6)),
            Check(JOBS, Key("p", "checked"), compare("state", "==", "ok")),
        ],
        token="t",
    )

    assert [(item.key.sk, item.version) for item in (await store.query(JOBS, "p")).items] == [
        ("checked", 1),
        ("new", 1),
    ]
    assert await store.get(QUOTAS, Key("acme", "cpus")) == Item(Key("acme", "cpus"), {"usage": 4}, 1)


async def test_a_cancelled_transaction_writes_nothing(store: Store) -> None:
    await put(store, Key("p", "there"))
    writes: list[Write] = [
        Put(JOBS, Key("p", "new"), {}, Absent()),
        Update(QUOTAS, Key("acme", "cpus"), add={"usage": 4}),
        Put(JOBS, Key("p", "there"), {"overwritten": True}, Absent()),
        Delete(JOBS, Key("p", "gone"), Present()),
    ]

    with pytest.raises(TransactionCancelled) as cancelled:
        await store.transact(writes, token="t")

    first, second, third, fourth = cancelled.value.reasons

    assert (first, second) == (None, None)
    assert third is not None
    assert third.write == writes[2]
    assert third.current == Item(Key("p", "there"), {}, 1)
    assert fourth is not None
    assert fourth.current is None
    assert (await store.query(JOBS, "p")).items == (Item(Key("p", "there"), {}, 1),)
    assert await store.get(QUOTAS, Key("acme", "cpus")) is None

    # The token of a cancelled transaction can be used again.
    await store.transact(writes[:2], token="t")


async def test_a_repeated_transaction_happens_once(store: Store, clock: Clock) -> None:
    def writes() -> list[Put | Update]:
        return [
            Update(QUOTAS, Key("acme", "cpus"), add={"usage": 4}, condition=at_most("usage", 1)),
            Put(JOBS, KEY, {"at": clock.now}, Absent()),
        ]

    await store.transact(writes(), token="submit-1")
    clock.now += 3600
    await store.transact(writes(), token="submit-1")
    await asyncio.gather(*(store.transact(writes(), token="submit-1") for _ in range(4)))

    assert await store.get(QUOTAS, Key("acme", "cpus")) == Item(Key("acme", "cpus"), {"usage": 4}, 1)
    assert await store.get(JOBS, KEY) == Item(KEY, {"at": NOW}, 1)
    with pytest.raises(TransactionCancelled):
        await store.transact(writes(), token="submit-2")
    with pytest.raises(TokenReused):
        await store.transact([Update(QUOTAS, Key("umbrella", "cpus"), add={"usage": 4})], token="submit-1")
    assert await store.get(QUOTAS, Key("umbrella", "cpus")) is None


async def test_a_transaction_has_1_to_99_writes_to_different_items(store: Store) -> None:
    with pytest.raises(InvalidItem):
        await store.transact([], token="t")
    with pytest.raises(InvalidItem):
        await store.transact([Put(JOBS, KEY, {}, Absent()), Delete(JOBS, KEY)], token="t")
    with pytest.raises(InvalidItem):
        await store.transact([Put(JOBS, Key("p", f"{n}"), {}, Absent()) for n in range(100)], token="t")

    await store.transact([Put(JOBS, Key("p", f"{n}"), {}, Absent()) for n in range(99)], token="t")

    assert len((await store.query(JOBS, "p")).items) == 99


async def test_concurrent_transactions_do_not_exceed_a_quota(store: Store) -> None:
    async def submit(number: int) -> bool:
        try:
            await store.transact(
                [
                    Update(QUOTAS, Key("acme", "jobs"), add={"usage": 1}, condition=at_most("usage", 9)),
                    Put(JOBS, Key("acme", f"{number}"), {}, Absent()),
                ],
                token=f"submit-{number}",
            )
        except TransactionCancelled:
            return False
        return True

    assert sum(await asyncio.gather(*(submit(n) for n in range(16)))) == 10
    assert await store.get(QUOTAS, Key("acme", "jobs")) == Item(Key("acme", "jobs"), {"usage": 10}, 10)
    assert len((await store.query(JOBS, "acme")).items) == 10
