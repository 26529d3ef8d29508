"""Scans: all live items of a table, once each, in pages."""

import pytest
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.page import InvalidCursor
from clusterra_runtime.store.store import Delete, Store

from .conftest import JOBS, NOW, QUOTAS, put


async def test_a_scan_finds_each_live_item_once_over_all_pages(store: Store) -> None:
    expected = {Key(f"p{number % 4}", f"s{number}") for number in range(23)}
    for key in expected:
        await put(store, key, expires_at=NOW + 1000)
    await put(store, Key("gone", "s"), expires_at=NOW - 1)

    found: list[Key] = []
    cursor, pages = None, 0
    while cursor is not None or pages == 0:
        page = await store.scan(JOBS, limit=5, cursor=cursor)
        assert len(page.items) <= 5
        found += [item.key for item in page.items]
        cursor, pages = page.cursor, pages + 1

    assert sorted(found, key=str) == sorted(expected, key=str)
    assert pages >= 5
    assert (await store.scan(QUOTAS, limit=5)).items == ()


async def test_items_may_be_deleted_while_a_scan_goes_on(store: Store) -> None:
    for number in range(12):
        await put(store, Key("p", f"s{number}"))

    removed, cursor = 0, None
    while True:
        page = await store.scan(JOBS, limit=4, cursor=cursor)
        for item in page.items:
            await store.delete(Delete(JOBS, item.key))
            removed += 1
        if (cursor := page.cursor) is None:
            break

    assert removed == 12
    assert (await store.scan(JOBS, limit=4)).items == ()


@pytest.mark.parametrize("cursor", ["nonsense!", "", "bnVsbA==", "WzFd", "WyIiLCIiXQ=="])
async def test_a_foreign_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await store.scan(JOBS, limit=5, cursor=cursor)
