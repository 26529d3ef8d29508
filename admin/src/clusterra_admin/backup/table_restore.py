"""Writes the items of a backup to a table, in batches, and single where a batch is refused."""

import asyncio
import time
import zlib
from collections.abc import Sequence
from itertools import batched
from pathlib import Path
from typing import Any

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.store.dynamodb_client import Client
from clusterra_runtime.store.store import StoreError, StoreUnavailable

from clusterra_admin.backup.adjustments import Adjustments, readable
from clusterra_admin.backup.dynamodb_json import NotAnItem, Record, from_json
from clusterra_admin.backup.lines import Line, read_batches
from clusterra_admin.backup.manifest import Table
from clusterra_admin.backup.outcome import PartOutcome
from clusterra_admin.backup.progress import Progress

BATCH_ITEMS = 25
"""DynamoDB's limit of a batch."""
BATCHES = 8
"""Batches that are written at once."""
RETRY_SECONDS = 120.0

type Numbered = tuple[int, Record]
"""The line of an item, and the item."""


class TableWriter:
    """The restore of one table. Items that are there already are replaced by the same items."""

    def __init__(self, client: Client, full_name: str, adjustments: Adjustments, progress: Progress) -> None:
        self._client = client
        self._full_name = full_name
        self._adjustments = adjustments
        self._progress = progress

    async def restore(self, folder: Path, table: Table) -> PartOutcome:
        """Write all items. An item that cannot be written is told in the outcome. Raises StoreUnavailable."""
        outcome = PartOutcome(name=table.name)
        async for lines in read_batches(folder / table.file.path):
            items = self._items(table.name, lines, outcome)
            groups = list(batched(items, BATCH_ITEMS))
            for some in batched(groups, BATCHES):
                await asyncio.gather(*(self._write(group, outcome) for group in some))
                self._progress.count(f"table {table.name}", outcome.restored, table.file.lines)
        self._progress.tell(f"table {table.name}: {outcome.restored} of {table.file.lines} items")
        return outcome

    def _items(self, table: str, lines: Sequence[Line], outcome: PartOutcome) -> list[Numbered]:
        items: dict[str, Numbered] = {}
        for number, content in lines:
            try:
                record = from_json(content.get("Item") if isinstance(content, dict) else None)
                record = self._adjustments.apply(table, record)
            except (NotAnItem, ValueError, KeyError, zlib.error) as error:
                outcome.reject(number, f"{type(error).__name__}: {error}")
                continue
            if _expired(record):
                outcome.expired += 1
                continue
            # A batch must not name a key twice; an item that moved during the scan may be there twice.
            items[readable(record)] = (number, record)
        return list(items.values())

    async def _write(self, group: Sequence[Numbered], outcome: PartOutcome) -> None:
        try:
            await self._write_batch([record for _, record in group])
        except StoreUnavailable:
            raise
        except StoreError:
            await self._write_singly(group, outcome)
        else:
            outcome.restored += len(group)

    async def _write_batch(self, records: Sequence[Record]) -> None:
        requests: list[Any] = [{"PutRequest": {"Item": record}} for record in records]

        async def write() -> None:
            nonlocal requests
            answer = await self._client.call("batch_write_item", RequestItems={self._full_name: requests})
            requests = (answer.get("UnprocessedItems") or {}).get(self._full_name) or []
            if requests:
                raise StoreUnavailable("DynamoDB is too busy: some items of a batch were not written")

        await retry(write, Backoff(0.4, 10.0), on=StoreUnavailable, seconds=RETRY_SECONDS)

    async def _write_singly(self, group: Sequence[Numbered], outcome: PartOutcome) -> None:
        for number, record in group:
            try:
                await self._client.call("put_item", TableName=self._full_name, Item=record)
            except StoreUnavailable:
                raise
            except StoreError as error:
                outcome.reject(number, f"{readable(record)}: {error}")
            else:
                outcome.restored += 1


def _expired(record: Record) -> bool:
    expires_at = record.get("expires_at", {}).get("N")
    return expires_at is not None and float(expires_at) <= time.time()
