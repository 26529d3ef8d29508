"""The store on DynamoDB, or on a server that speaks its protocol at `AWS_ENDPOINT_URL`."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, override

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.store.attribute_value import AttributeValue, item_of, item_record, key_of, key_record
from clusterra_runtime.store.condition import holds
from clusterra_runtime.store.dynamodb_client import Client, WriteRejected
from clusterra_runtime.store.dynamodb_expression import Expression, key_condition, live, unchanged
from clusterra_runtime.store.dynamodb_tables import create_table, is_usable, table_differences
from clusterra_runtime.store.item import Item, Key, canonical
from clusterra_runtime.store.page import Page, SortRange, continue_after, cursor_after, scan_after, scan_cursor
from clusterra_runtime.store.store import (
    Check,
    ConditionFailed,
    Delete,
    Index,
    Put,
    Store,
    StoreUnavailable,
    Table,
    Update,
    Write,
    accept_repetition,
    check_batch,
    token_record,
)

_READ_AHEAD = 25
_BATCH_ATTEMPTS = 5
_FIRST_BATCH_PAUSE_SECONDS, _LONGEST_BATCH_PAUSE_SECONDS = 0.05, 1.0
_SINGLE = {Put: "put_item", Update: "update_item", Delete: "delete_item"}
_TRANSACTED = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}


@dataclass(frozen=True, slots=True)
class _Rejection:
    """A write whose condition failed for an item that DynamoDB still holds; the item may have expired."""

    write: Write
    found: Item | None
    expired: bool

    def failure(self) -> ConditionFailed | None:
        """The error of the write; None if it will succeed once the expired item is removed."""
        if self.expired and holds(self.write.condition, None):
            return None
        return ConditionFailed(self.write, None if self.expired else self.found)


class _Unprocessed(StoreUnavailable):
    """DynamoDB took a part of a batch, and leaves the rest to be sent again."""


class DynamoDBStore(Store):
    """Tables of DynamoDB. Open the store with `async with`, once per process.

    `table_prefix` distinguishes the tables of several installations in one account; `clock` gives epoch seconds.
    """

    def __init__(self, *, table_prefix: str = "", clock: Callable[[], float] = time.time) -> None:
        self._client = Client()
        self._prefix = table_prefix
        self._clock = clock

    @override
    async def __aenter__(self) -> Self:
        await self._client.open()
        return self

    @override
    async def __aexit__(self, *error: object) -> None:
        await self._client.close()

    @override
    async def create_tables(self, *tables: Table) -> None:
        await asyncio.gather(*(create_table(self._client, table, self.table_name(table)) for table in tables))

    @override
    async def missing_tables(self, *tables: Table) -> tuple[str, ...]:
        usable = await asyncio.gather(*(is_usable(self._client, table, self.table_name(table)) for table in tables))
        return tuple(self.table_name(table) for table, usable in zip(tables, usable, strict=True) if not usable)

    async def differences(self, table: Table) -> list[str]:
        """How the table differs from its declaration, in words; empty if it does not. Raises StoreError."""
        return await table_differences(self._client, table, self.table_name(table))

    def table_name(self, table: Table) -> str:
        """The name of a table in its account."""
        return self._prefix + table.name

    @override
    async def get(self, table: Table, key: Key) -> Item | None:
        answer = await self._client.call(
            "get_item", TableName=self.table_name(table), Key=key_record(key), ConsistentRead=True
        )
        return self._live(answer.get("Item"))

    @override
    async def write(self, write: Put | Update) -> Item:
        answer = await self._write(write)
        if isinstance(write, Put):
            return _put_item(write)
        return item_of(answer["Attributes"])

    @override
    async def delete(self, delete: Delete) -> None:
        await self._write(delete)

    @override
    async def put_all(self, puts: Sequence[Put]) -> None:
        check_batch(puts)
        requests: dict[str, Any] = {}
        for put in puts:
            entry = {"PutRequest": {"Item": item_record(_put_item(put))}}
            requests.setdefault(self.table_name(put.table), []).append(entry)

        async def send() -> None:
            nonlocal requests
            answer = await self._client.call("batch_write_item", RequestItems=requests)
            requests = answer.get("UnprocessedItems") or {}
            if requests:
                raise _Unprocessed("DynamoDB is too busy: some items of a batch were not written")

        backoff = Backoff(_FIRST_BATCH_PAUSE_SECONDS, _LONGEST_BATCH_PAUSE_SECONDS)
        await retry(send, backoff, on=_Unprocessed, attempts=_BATCH_ATTEMPTS)

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
        after = continue_after(pk, sort, cursor)
        expression = Expression()
        request: dict[str, Any] = {
            "TableName": self.table_name(table),
            "KeyConditionExpression": expression.condition(
                key_condition(("pk", pk), "sk", sort), is_key_condition=True
            ),
            "ScanIndexForward": not descending,
            "ConsistentRead": True,
            **expression.placeholders(),
        }
        if after is not None:
            request["ExclusiveStartKey"] = key_record(after)
        found: list[Item] = []
        while limit is None or len(found) <= limit:
            if limit is not None:
                # One item beyond the limit shows whether a page follows; further items replace expired ones.
                request["Limit"] = max(limit + 1 - len(found), _READ_AHEAD)
            answer = await self._client.call("query", **request)
            found += [item for record in answer["Items"] if (item := self._live(record)) is not None]
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        page = found[:limit]
        return Page(tuple(page), cursor_after(page[-1].key) if len(found) > len(page) else None)

    @override
    async def scan(self, table: Table, *, limit: int, cursor: str | None = None) -> Page:
        request: dict[str, Any] = {"TableName": self.table_name(table), "ConsistentRead": True, "Limit": limit}
        if (after := scan_after(cursor)) is not None:
            request["ExclusiveStartKey"] = key_record(after)
        answer = await self._client.call("scan", **request)
        found = tuple(item for record in answer["Items"] if (item := self._live(record)) is not None)
        last = answer.get("LastEvaluatedKey")
        return Page(found, None if last is None else scan_cursor(key_of(last)))

    @override
    async def query_index(
        self, table: Table, index: Index, partition: str, *, sort: SortRange | None = None, limit: int = 1000
    ) -> list[Key]:
        expression = Expression()
        request: dict[str, Any] = {
            "TableName": self.table_name(table),
            "IndexName": index.name,
            "KeyConditionExpression": expression.condition(
                key_condition((index.partition, partition), index.sort, sort), is_key_condition=True
            ),
            **expression.placeholders(),
        }
        found: list[Key] = []
        while len(found) < limit:
            answer = await self._client.call("query", **request, Limit=limit - len(found))
            found += [key_of(record) for record in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        return found

    @override
    async def transact(self, writes: Sequence[Write], *, token: str) -> None:
        record = token_record(writes, token, self._clock())
        every: list[Write] = [*writes, record]
        while True:
            items = [{_TRANSACTED[type(write)]: self._request(write)} for write in every]
            try:
                await self._client.call("transact_write_items", TransactItems=items)
            except WriteRejected as rejected:
                found = rejected.found
            else:
                return
            rejections = [
                None if one is None else self._rejection(write, one) for write, one in zip(every, found, strict=True)
            ]
            failures = [None if rejection is None else rejection.failure() for rejection in rejections]
            if any(failures):
                accept_repetition(record, failures)
                return
            await self._remove_expired([rejection for rejection in rejections if rejection is not None])

    async def _write(self, write: Put | Update | Delete) -> Any:
        returned = {"ReturnValues": "ALL_NEW"} if isinstance(write, Update) else {}
        while True:
            try:
                return await self._client.call(_SINGLE[type(write)], **self._request(write), **returned)
            except WriteRejected as rejected:
                (found,) = rejected.found
            rejection = self._rejection(write, found or {})
            if (failure := rejection.failure()) is not None:
                raise failure
            await self._remove_expired([rejection])

    async def _remove_expired(self, rejections: Sequence[_Rejection]) -> None:
        """Remove the expired items that block a write; DynamoDB itself may hold them for days."""
        for rejection in rejections:
            if rejection.found is not None:
                await self._remove(rejection.write.table, rejection.found)

    async def _remove(self, table: Table, item: Item) -> None:
        expression = Expression()
        condition = expression.condition(unchanged(item))
        try:
            await self._client.call(
                "delete_item",
                TableName=self.table_name(table),
                Key=key_record(item.key),
                ConditionExpression=condition,
                **expression.placeholders(),
            )
        except WriteRejected:
            return  # Somebody else removed or replaced the item; the repeated write will find out.

    def _rejection(self, write: Write, record: Mapping[str, AttributeValue]) -> _Rejection:
        item = item_of(record) if record else None
        return _Rejection(write, item, expired=item is not None and self._expired(item))

    def _request(self, write: Write) -> dict[str, Any]:
        expression = Expression()
        request: dict[str, Any] = {
            "TableName": self.table_name(write.table),
            "ConditionExpression": expression.condition(live(write.condition, int(self._clock()))),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        if isinstance(write, Put):
            request["Item"] = item_record(_put_item(write))
        else:
            request["Key"] = key_record(write.key)
        if isinstance(write, Update):
            request["UpdateExpression"] = expression.update(write)
        return request | expression.placeholders()

    def _live(self, record: Mapping[str, AttributeValue] | None) -> Item | None:
        if record is None:
            return None
        item = item_of(record)
        return None if self._expired(item) else item

    def _expired(self, item: Item) -> bool:
        return item.expires_at is not None and item.expires_at <= self._clock()


def _put_item(put: Put) -> Item:
    return Item(put.key, canonical(put.attributes), put.version, put.expires_at)
