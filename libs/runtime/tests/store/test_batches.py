"""Batches of puts: the same items as single writes make, in both adapters, and whole although DynamoDB takes a part."""

from typing import Any

import pytest
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import InvalidItem, Key
from clusterra_runtime.store.store import MAX_BATCH_WRITES, ItemTooLarge, Put, Store, StoreUnavailable, Table

TABLE = Table("batches")


def put(number: int, text: str = "x") -> Put:
    return Put(TABLE, Key("p", f"{number:02d}"), {"text": text, "bytes": b"\0\xff", "n": 1.5}, Absent(), 4_000_000_000)


async def test_a_batch_writes_what_single_writes_do_and_again(store: Store) -> None:
    await store.create_tables(TABLE)
    single = [await store.write(put(number)) for number in range(3)]
    puts = [put(number) for number in range(MAX_BATCH_WRITES)]

    await store.put_all(puts)
    await store.put_all(puts)

    page = await store.query(TABLE, "p")
    assert len(page.items) == MAX_BATCH_WRITES
    assert list(page.items[:3]) == single


@pytest.mark.parametrize("puts", [[], [put(1), put(1)], [put(number) for number in range(MAX_BATCH_WRITES + 1)]])
async def test_an_impossible_batch_is_refused(store: Store, puts: list[Put]) -> None:
    await store.create_tables(TABLE)

    with pytest.raises(InvalidItem, match="batch"):
        await store.put_all(puts)


async def test_an_item_of_a_batch_may_be_too_large(store: Store) -> None:
    await store.create_tables(TABLE)

    with pytest.raises(ItemTooLarge):
        await store.put_all([put(1, "x" * 500_000)])


class Partial:
    """Stands in for the client: it takes `takes` items of each batch."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.taken: list[Any] = []

    async def call(self, operation: str, **request: Any) -> dict[str, Any]:
        assert operation == "batch_write_item"
        ((name, entries),) = request["RequestItems"].items()
        self.taken += entries[: self.takes]
        left = entries[self.takes :]
        return {"UnprocessedItems": {name: left} if left else {}}


async def test_the_rest_of_a_batch_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, server = DynamoDBStore(), Partial(takes=2)
    monkeypatch.setattr(store, "_client", server)

    await store.put_all([put(number) for number in range(5)])

    assert [each["PutRequest"]["Item"]["sk"]["S"] for each in server.taken] == ["00", "01", "02", "03", "04"]


async def test_a_batch_that_is_never_taken_whole_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DynamoDBStore()
    monkeypatch.setattr(store, "_client", Partial(takes=0))

    with pytest.raises(StoreUnavailable, match="too busy"):
        await store.put_all([put(1)])
