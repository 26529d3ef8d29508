"""Reads a whole table by a parallel scan and writes its items to a file."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.store.dynamodb_client import Client
from clusterra_runtime.store.store import StoreError, StoreUnavailable

from clusterra_admin.backup.dynamodb_json import to_json
from clusterra_admin.backup.lines import LinesWriter
from clusterra_admin.backup.manifest import Table
from clusterra_admin.backup.marker import is_marker
from clusterra_admin.backup.progress import Progress

SEGMENTS = 4
"""Parts of a table that are scanned at once. Each has one page of at most 1 MB in memory."""
RETRY_SECONDS = 120.0
"""How long a page is asked for again while the table is too busy."""


class TableReader:
    """The backup of one table."""

    def __init__(self, client: Client, name: str, full_name: str, progress: Progress) -> None:
        self._client = client
        self._name = name
        self._full_name = full_name
        self._progress = progress
        self.highest_fence = 0
        """The highest attribute `fence` of an item."""

    async def back_up(self, folder: Path) -> Table:
        """Write the table. Every item is read consistently, but not all at the same moment. Raises StoreError."""
        described = (await self._client.call("describe_table", TableName=self._full_name))["Table"]
        expiry = await self._client.call("describe_time_to_live", TableName=self._full_name)
        async with LinesWriter(folder, f"tables/{self._name}.jsonl.gz") as writer:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for segment in range(SEGMENTS):
                        tasks.create_task(self._scan(segment, writer))
            except* StoreError as group:
                raise group.exceptions[0] from None
        assert writer.file is not None  # noqa: S101 - the block has ended
        self._progress.tell(f"table {self._name}: {writer.lines} items")
        definition = {key: described.get(key) for key in ("KeySchema", "AttributeDefinitions")}
        indexes = [
            {key: index.get(key) for key in ("IndexName", "KeySchema", "Projection")}
            for index in described.get("GlobalSecondaryIndexes") or []
        ]
        definition |= {"GlobalSecondaryIndexes": indexes, "TimeToLive": expiry.get("TimeToLiveDescription")}
        return Table(name=self._name, definition=definition, file=writer.file)

    async def _scan(self, segment: int, writer: LinesWriter) -> None:
        request: dict[str, Any] = {
            "TableName": self._full_name,
            "ConsistentRead": True,
            "Segment": segment,
            "TotalSegments": SEGMENTS,
        }
        while True:
            page = await self._page(request)
            items = [record for record in page.get("Items", []) if not is_marker(record)]
            fences = [int(record["fence"]["N"]) for record in items if "N" in record.get("fence", {})]
            self.highest_fence = max([self.highest_fence, *fences])
            await writer.write([{"Item": to_json(record)} for record in items])
            self._progress.count(f"table {self._name}", writer.lines)
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    async def _page(self, request: dict[str, Any]) -> Any:
        scan = partial(self._client.call, "scan", **request)
        return await retry(scan, Backoff(1.0, 10.0), on=StoreUnavailable, seconds=RETRY_SECONDS)
