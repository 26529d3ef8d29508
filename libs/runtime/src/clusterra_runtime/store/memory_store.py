"""The store in the memory of this process: for tests and single-process use, with the semantics of DynamoDB's."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self, override

from clusterra_runtime.store.condition import holds
from clusterra_runtime.store.item import Item, Key, Value, canonical, sum_of
from clusterra_runtime.store.page import Page, SortRange, continue_after, cursor_after, scan_after, scan_cursor
from clusterra_runtime.store.store import (
    Check,
    ConditionFailed,
    Delete,
    Index,
    ItemTooLarge,
    Put,
    Store,
    StoreError,
    Table,
    TableMissing,
    Update,
    Write,
    accept_repetition,
    check_batch,
    token_record,
)

MAX_ITEM_BYTES = 400 * 1024

type _Partition = dict[str, Item]


class MemoryStore(Store):
    """Tables as dictionaries. No operation awaits between reading and writing, so each is atomic on its event loop."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._tables: dict[str, dict[str, _Partition]] = {}
        self._clock = clock

    @override
    async def __aenter__(self) -> Self:
        return self

    @override
    async def __aexit__(self, *error: object) -> None:
        self._tables.clear()

    @override
    async def create_tables(self, *tables: Table) -> None:
        for table in tables:
            self._tables.setdefault(table.name, {})

    @override
    async def missing_tables(self, *tables: Table) -> tuple[str, ...]:
        return tuple(table.name for table in tables if table.name not in self._tables)

    @override
    async def get(self, table: Table, key: Key) -> Item | None:
        await asyncio.sleep(0)
        item = self._live(table, key)
        return None if item is None else _copy(item)

    @override
    async def write(self, write: Put | Update) -> Item:
        await asyncio.sleep(0)
        item = self._result(write)
        self._store(write, item)
        return _copy(item)

    @override
    async def delete(self, delete: Delete) -> None:
        await asyncio.sleep(0)
        self._check(delete)
        self._store(delete, None)

    @override
    async def put_all(self, puts: Sequence[Put]) -> None:
        await asyncio.sleep(0)
        check_batch(puts)
        for put in puts:
            self._store(put, _checked_size(put, Item(put.key, canonical(put.attributes), put.version, put.expires_at)))

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
        await asyncio.sleep(0)
        after = continue_after(pk, sort, cursor)
        found = sorted(
            (item for item in self._all(table, [pk]) if sort is None or sort.covers(item.key.sk)),
            key=lambda item: item.key.sk.encode(),
            reverse=descending,
        )
        if after is not None:
            found = [i for i in found if (i.key.sk < after.sk if descending else i.key.sk > after.sk)]
        page = found[:limit]
        more = len(found) > len(page)
        return Page(tuple(_copy(item) for item in page), cursor_after(page[-1].key) if more else None)

    @override
    async def scan(self, table: Table, *, limit: int, cursor: str | None = None) -> Page:
        await asyncio.sleep(0)
        after = scan_after(cursor)
        place = None if after is None else (after.pk, after.sk)
        found = sorted(self._all(table, self._table(table)), key=lambda item: (item.key.pk, item.key.sk))
        left = [item for item in found if place is None or (item.key.pk, item.key.sk) > place]
        page = left[:limit]
        return Page(tuple(map(_copy, page)), scan_cursor(page[-1].key) if len(left) > len(page) else None)

    @override
    async def query_index(
        self, table: Table, index: Index, partition: str, *, sort: SortRange | None = None, limit: int = 1000
    ) -> list[Key]:
        await asyncio.sleep(0)
        found: list[tuple[str, Key]] = []
        for item in self._all(table, self._table(table)):
            at = item.attributes.get(index.sort)
            if item.attributes.get(index.partition) == partition and isinstance(at, str):
                found.append((at, item.key))
        found.sort(key=lambda entry: (entry[0].encode(), entry[1].pk, entry[1].sk))
        return [key for at, key in found if sort is None or sort.covers(at)][:limit]

    @override
    async def transact(self, writes: Sequence[Write], *, token: str) -> None:
        await asyncio.sleep(0)
        record = token_record(writes, token, self._clock())
        results: list[tuple[Write, Item | None]] = []
        reasons: list[ConditionFailed | None] = []
        for write in (*writes, record):
            try:
                results.append((write, self._outcome(write)))
                reasons.append(None)
            except ConditionFailed as error:
                reasons.append(error)
        if any(reasons):
            return accept_repetition(record, reasons)
        for write, item in results:
            if not isinstance(write, Check):
                self._store(write, item)
        return None

    def _table(self, table: Table) -> dict[str, _Partition]:
        try:
            return self._tables[table.name]
        except KeyError:
            raise TableMissing(f"the table {table.name} does not exist: run `clusterra-admin tables apply`") from None

    def _all(self, table: Table, pks: Iterable[str]) -> Iterable[Item]:
        partitions = self._table(table)
        for pk in pks:
            for sk in partitions.get(pk, {}):
                if (item := self._live(table, Key(pk, sk))) is not None:
                    yield item

    def _live(self, table: Table, key: Key) -> Item | None:
        item = self._table(table).get(key.pk, {}).get(key.sk)
        if item is None or (item.expires_at is not None and item.expires_at <= self._clock()):
            return None
        return item

    def _check(self, write: Write) -> Item | None:
        item = self._live(write.table, write.key)
        if not holds(write.condition, item):
            raise ConditionFailed(write, None if item is None else _copy(item))
        return item

    def _outcome(self, write: Write) -> Item | None:
        if isinstance(write, Put | Update):
            return self._result(write)
        self._check(write)
        return None

    def _result(self, write: Put | Update) -> Item:
        if isinstance(write, Put):
            item = Item(write.key, canonical(write.attributes), write.version, write.expires_at)
            self._check(write)
        else:
            item = _updated(self._check(write), write)
        return _checked_size(write, item)

    def _store(self, write: Put | Update | Delete, item: Item | None) -> None:
        partition = self._table(write.table).setdefault(write.key.pk, {})
        if item is None:
            partition.pop(write.key.sk, None)
        else:
            partition[write.key.sk] = item


def _checked_size(write: Put | Update, item: Item) -> Item:
    if _item_bytes(item) > MAX_ITEM_BYTES:
        raise ItemTooLarge(f"{write.table.name} {item.key.pk} {item.key.sk} exceeds 400 KiB: split it")
    return item


def _updated(item: Item | None, update: Update) -> Item:
    attributes = {} if item is None else dict(item.attributes)
    attributes |= canonical(update.set)
    for name, amount in update.add.items():
        attributes[name] = _sum(name, attributes.get(name, 0), amount)
    for name, entries in canonical(update.append).items():
        present = attributes.get(name, [])
        if not isinstance(present, list) or not isinstance(entries, list):
            raise StoreError(f"{name!r} is not a list, so nothing can be appended to it")
        attributes[name] = [*present, *entries]
    for name in update.remove:
        attributes.pop(name, None)
    return Item(
        key=update.key,
        attributes=attributes,
        version=(0 if item is None else item.version) + (not update.keep_version),
        expires_at=update.expires_at if update.expires_at is not None or item is None else item.expires_at,
    )


def _sum(name: str, present: Value, amount: int | float) -> int | float:
    if isinstance(present, bool) or not isinstance(present, int | float):
        raise StoreError(f"{name!r} is not a number, so nothing can be added to it")
    return sum_of(present, amount)


def _copy(item: Item) -> Item:
    return replace(item, attributes=canonical(item.attributes))


def _item_bytes(item: Item) -> int:
    """The size by DynamoDB's rules: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html."""
    system: dict[str, Value] = {"pk": item.key.pk, "sk": item.key.sk, "version": item.version}
    return sum(len(name.encode()) + _value_bytes(value) for name, value in (system | dict(item.attributes)).items())


def _value_bytes(value: Value) -> int:
    match value:
        case None | bool():
            return 1
        case int() | float():
            return len(repr(abs(value)).replace(".", "").strip("0")) // 2 + 2
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case Mapping():
            return 3 + sum(1 + len(name.encode()) + _value_bytes(entry) for name, entry in value.items())
        case _:
            return 3 + sum(1 + _value_bytes(entry) for entry in value)
