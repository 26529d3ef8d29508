"""Queries: order, ranges, pages and indexes."""

import pytest
from clusterra_runtime.store.item import InvalidItem, Key
from clusterra_runtime.store.page import Between, InvalidCursor, Prefix, all_items
from clusterra_runtime.store.store import Delete, Store, Update

from .conftest import BY_STATE, JOBS, put


async def test_a_query_is_ordered_by_the_bytes_of_the_sort_key(store: Store) -> None:
    sort_keys = ["a", "a#1", "a#10", "a#2", "b", "Z", "ä", "🦀", "\uffff"]
    for sk in sort_keys:
        await put(store, Key("p", sk))
    await put(store, Key("other", "a"))
    ordered = sorted(sort_keys, key=str.encode)

    async def sks(**options: Prefix | Between | bool) -> list[str]:
        page = await store.query(JOBS, "p", **options)  # type: ignore[arg-type]
        assert page.cursor is None
        return [item.key.sk for item in page.items]

    assert await sks() == ordered
    assert await sks(descending=True) == ordered[::-1]
    assert await sks(sort=Prefix("a#")) == ["a#1", "a#10", "a#2"]
    assert await sks(sort=Prefix("a#"), descending=True) == ["a#2", "a#10", "a#1"]
    assert await sks(sort=Between("a#1", "b")) == ["a#1", "a#10", "a#2", "b"]
    assert await sks(sort=Between("c", "d")) == []
    assert (await store.query(JOBS, "nobody")).items == ()
    with pytest.raises(InvalidItem):
        await store.query(JOBS, "")


def test_an_empty_range_is_rejected() -> None:
    with pytest.raises(InvalidItem):
        Prefix("")
    with pytest.raises(InvalidItem):
        Between("b", "a")
    with pytest.raises(InvalidItem):
        Between("", "a")


@pytest.mark.parametrize("descending", [False, True])
async def test_a_query_reads_beyond_a_megabyte(store: Store, descending: bool) -> None:
    for n in range(12):
        await put(store, Key("p", f"{n:02}"), blob="x" * 150_000)
    page = await store.query(JOBS, "p", descending=descending)

    assert [int(item.key.sk) for item in page.items] == sorted(range(12), reverse=descending)
    assert page.cursor is None

    page = await store.query(JOBS, "p", descending=descending, limit=11)

    assert len(page.items) == 11
    assert page.cursor is not None


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 4, 12, 13])
async def test_the_pages_together_contain_every_item_once(store: Store, descending: bool, limit: int) -> None:
    for n in range(12):
        await put(store, Key("p", f"{n:02}"))
    await put(store, Key("p", "zz"))
    read: list[str] = []
    cursor = None
    pages = 0
    while True:
        page = await store.query(JOBS, "p", sort=Between("0", "y"), descending=descending, limit=limit, cursor=cursor)
        read += [item.key.sk for item in page.items]
        pages += 1
        cursor = page.cursor
        if cursor is None:
            break

    assert [int(sk) for sk in read] == sorted(range(12), reverse=descending)
    assert pages == -(-12 // limit)


@pytest.mark.parametrize("limit", [1, 5, 6])
async def test_all_items_are_those_of_all_pages_in_their_order(store: Store, limit: int) -> None:
    for n in range(5):
        await put(store, Key("p", f"{n}"))

    read = [item async for item in all_items(lambda after: store.query(JOBS, "p", limit=limit, cursor=after))]

    assert [item.key.sk for item in read] == ["0", "1", "2", "3", "4"]


async def test_paging_continues_while_items_are_added_and_deleted(store: Store) -> None:
    for n in range(4):
        await put(store, Key("p", f"{n}"))
    first = await store.query(JOBS, "p", limit=2)
    await store.delete(Delete(JOBS, Key("p", "1")))
    await put(store, Key("p", "1x"))
    second = await store.query(JOBS, "p", limit=10, cursor=first.cursor)

    assert [item.key.sk for item in second.items] == ["1x", "2", "3"]


@pytest.mark.parametrize("cursor", ["%", "!!!!", "_w", "", "ä", "YWJj"])
async def test_a_forged_cursor_is_rejected(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await store.query(JOBS, "p", sort=Prefix("job#"), cursor=cursor)


async def test_an_index_finds_items_that_have_both_attributes(store: Store) -> None:
    for n, state in enumerate(["pending", "running", "pending"]):
        await put(store, Key(f"p{n}", "job"), state=state, since=f"2026-01-0{9 - n}")
    await put(store, Key("p3", "job"), state="pending")
    found = await store.query_index(JOBS, BY_STATE, "pending")

    assert found == [Key("p2", "job"), Key("p0", "job")]
    assert await store.query_index(JOBS, BY_STATE, "pending", limit=1) == [Key("p2", "job")]
    assert await store.query_index(JOBS, BY_STATE, "pending", sort=Between("2026", "2026-01-08")) == [Key("p2", "job")]

    await store.write(Update(JOBS, Key("p2", "job"), remove=("state", "since")))

    assert await store.query_index(JOBS, BY_STATE, "pending") == [Key("p0", "job")]
