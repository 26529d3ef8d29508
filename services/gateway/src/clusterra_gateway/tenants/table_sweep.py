"""Goes through a whole table and removes what belongs to something that is deleted."""

from collections.abc import AsyncIterator, Callable

from clusterra_runtime.store.item import Item
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Delete, Store, Table

PAGE = 500


async def remove_where(store: Store, table: Table, belongs: Callable[[Item], bool]) -> int:
    """Remove the items that belong to it, page by page. Returns how many. Raises StoreError."""
    removed = 0
    async for item in everything(store, table):
        if belongs(item):
            await store.delete(Delete(table, item.key))
            removed += 1
    return removed


async def remove_partition(store: Store, table: Table, pk: str, *, keep: str = "") -> int:
    """Remove the items of a partition but the one with the sort key `keep`. Returns how many. Raises StoreError."""
    removed = 0
    async for item in all_items(lambda after: store.query(table, pk, limit=PAGE, cursor=after)):
        if item.key.sk != keep:
            await store.delete(Delete(table, item.key))
            removed += 1
    return removed


def everything(store: Store, table: Table) -> AsyncIterator[Item]:
    """All live items of a table, in no order. Raises StoreError."""
    return all_items(lambda after: store.scan(table, limit=PAGE, cursor=after))
