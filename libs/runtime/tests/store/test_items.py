"""Keys and values: what is written is read back, and what cannot be stored is rejected."""

import asyncio
from typing import Any

import pytest
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import InvalidItem, Item, Key, Value
from clusterra_runtime.store.store import ItemTooLarge, Put, Store, Table, TableMissing, Update

from .conftest import JOBS, KEY, QUOTAS, put


async def test_an_item_comes_back_as_it_was_written(store: Store) -> None:
    attributes: dict[str, Any] = {
        "text": "Zeichen: äöü 🦀 \u0000 \U0010ffff",
        "empty": "",
        "yes": True,
        "no": False,
        "nothing": None,
        "int": 12345678901234567890,
        "negative": -7,
        "float": 0.1,
        "small": 1.5e-100,
        "exact": 1 / 3,
        "bytes": b"\x00\xff",
        "no bytes": b"",
        "list": [1, "two", [None, {"deep": [True]}], []],
        "map": {"inner": {"size": 1.25}, "empty": {}},
        # DynamoDB's reserved words, and names that are not valid in its expressions.
        "name": "n",
        "status": "s",
        "size": 3,
        "order by": "x",
        "a.b[0]": "path?",
        "ünï": 1,
        ":v0": "colon",
        "#n0": "hash",
    }
    written = await put(store, **attributes)

    assert written == Item(KEY, attributes, version=1)
    assert await store.get(JOBS, KEY) == written


async def test_whole_floats_come_back_as_integers(store: Store) -> None:
    await put(store, whole=2.0, large=1e23, largest=1e100, zero=-0.0)
    item = await store.get(JOBS, KEY)

    assert item is not None
    assert {name: (type(value), value) for name, value in item.attributes.items()} == {
        "whole": (int, 2),
        "large": (int, 10**23),
        "largest": (float, 1e100),
        "zero": (int, 0),
    }


async def test_items_are_copied_on_write_and_on_read(store: Store) -> None:
    mutable: list[Value] = [1]
    await put(store, entries=mutable)
    mutable.append(2)
    item = await store.get(JOBS, KEY)

    assert item is not None
    assert item.attributes["entries"] == [1]

    entries = item.attributes["entries"]

    assert isinstance(entries, list)

    entries.append(3)

    assert await store.get(JOBS, KEY) == Item(KEY, {"entries": [1]}, 1)


@pytest.mark.parametrize(
    "attributes",
    [
        {"pk": "x"},
        {"version": 3},
        {"expires_at": 1},
        {"": 1},
        {"nan": float("nan")},
        {"infinite": [float("inf")]},
        {"huge": 10**38},
        {"tiny": 1e-200},
        {"surrogate": "\ud800"},
        {"object": object()},
        {"set": {1, 2}},
        {"map": {1: "integer name"}},
        {"map": {"": "empty name"}},
    ],
)
async def test_an_attribute_that_cannot_be_stored_is_rejected(store: Store, attributes: dict[str, Value]) -> None:
    with pytest.raises(InvalidItem):
        await store.write(Put(JOBS, KEY, attributes, Absent()))
    assert await store.get(JOBS, KEY) is None


async def test_nesting_beyond_the_limit_is_rejected(store: Store) -> None:
    value: Value = "bottom"
    for _ in range(40):
        value = [value]
    with pytest.raises(InvalidItem):
        await put(store, value=value)


def test_keys_of_invalid_length_are_rejected() -> None:
    for pk, sk in (("", "a"), ("a", ""), ("ä" * 1025, "a"), ("a", "ä" * 513), ("a", "\ud800")):
        with pytest.raises(InvalidItem):
            Key(pk, sk)


async def test_the_longest_keys_work(store: Store) -> None:
    key = Key("ä" * 1024, "ä" * 512)
    await put(store, key)
    assert await store.get(JOBS, key) == Item(key, {}, 1)


async def test_an_item_over_the_size_limit_is_rejected(store: Store) -> None:
    await put(store, blob="x" * 390_000)

    with pytest.raises(ItemTooLarge):
        await store.write(Put(JOBS, KEY, {"blob": "x" * 410_000}, VersionIs(1)))
    with pytest.raises(ItemTooLarge):
        await store.write(Update(JOBS, KEY, set={"more": b"x" * 30_000}))
    with pytest.raises(ItemTooLarge):
        await store.transact(
            [
                Put(JOBS, Key("p", "small"), {}, Absent()),
                Put(JOBS, Key("p", "big"), {"blob": "ä" * 210_000}, Absent()),
            ],
            token="t",
        )

    item = await store.get(JOBS, KEY)

    assert item is not None
    assert (item.version, list(item.attributes)) == (1, ["blob"])
    assert (await store.query(JOBS, "p")).items == ()


async def test_tables_are_created_once(store: Store) -> None:
    await put(store)
    await store.create_tables(JOBS, QUOTAS)

    assert await store.get(JOBS, KEY) is not None
    with pytest.raises(TableMissing):
        await store.get(Table("nowhere"), KEY)
    with pytest.raises(TableMissing):
        await store.write(Put(Table("nowhere"), KEY, {}, Absent()))

    await asyncio.gather(*(store.create_tables(Table("another")) for _ in range(3)))
    await store.write(Put(Table("another"), KEY, {}, Absent()))
