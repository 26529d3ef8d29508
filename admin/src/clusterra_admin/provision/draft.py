"""A draft of the record: reads come from the real one, writes stay in memory. So a plan runs the code of `apply`."""

from collections.abc import Sequence
from typing import override

from clusterra_gateway.accounts.keyspace import IDENTITY_MAPS, KEPT_EVENTS, MAPPED_INDEXES, TENANTS, tenant_key
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox_item import without_messages
from clusterra_runtime.store.page import Page, SortRange
from clusterra_runtime.store.store import Put, Store, Table, Update, Write

_BOOKKEEPING = ("transaction#", TENANTS)
"""Items that remember transactions, and the marks by which tenants are listed."""
_TENANT = tenant_key("").pk


class Draft(MemoryStore):
    """One table of a real store, as it would be after the writes that were made here."""

    def __init__(self, record: Store, table: Table) -> None:
        super().__init__()
        self._record = record
        self._table_drafted = table
        self._before: dict[Key, Item | None] = {}

    async def changes(self) -> list[tuple[Key, Item | None, Item | None]]:
        """The items that would change, each before and after; None where there is no item."""
        found = []
        for key, before in self._before.items():
            after = await super().get(self._table_drafted, key)
            if not is_bookkeeping(key) and _content(before) != _content(after):
                found.append((key, before, after))
        return found

    @override
    async def get(self, table: Table, key: Key) -> Item | None:
        await self._load(key)
        return await super().get(table, key)

    @override
    async def query(
        self,
        table: Table,
        pk: str,
        *,
        sort: SortRange | None = None,
        descending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page:
        for item in (await self._record.query(table, pk, sort=sort)).items:
            if item.key not in self._before:
                await self._keep(item.key, item)
        return await super().query(table, pk, sort=sort, descending=descending, limit=limit, cursor=cursor)

    @override
    async def write(self, write: Put | Update) -> Item:
        await self._load(write.key)
        return await super().write(write)

    @override
    async def transact(self, writes: Sequence[Write], *, token: str) -> None:
        for write in writes:
            await self._load(write.key)
        await super().transact(writes, token=token)

    async def _load(self, key: Key) -> None:
        if key in self._before:
            return
        await self._keep(key, await self._record.get(self._table_drafted, key))

    async def _keep(self, key: Key, item: Item | None) -> None:
        self._before[key] = item
        if item is not None:
            # Its version begins anew here: only conditions of this draft refer to it.
            await super().write(Put(self._table_drafted, key, item.attributes, Absent(), item.expires_at))


def is_bookkeeping(key: Key) -> bool:
    """Whether an item follows from others, so that a plan does not name it."""
    of_map = key.pk.startswith(IDENTITY_MAPS) and any(index.covers(key.sk) for index in MAPPED_INDEXES)
    fact = key.pk.startswith(_TENANT) and KEPT_EVENTS.covers(key.sk)
    return of_map or fact or key.pk.startswith(_BOOKKEEPING)


def _content(item: Item | None) -> object:
    return None if item is None else without_messages(item.attributes)
