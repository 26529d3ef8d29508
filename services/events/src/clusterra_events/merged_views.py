"""Reads several views of the archive as one, in the order of their sort keys."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing

import structlog
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import Store, Table
from prometheus_client import Counter
from pydantic import ValidationError

MAX_QUERY = 250
"""The most items of a view that one query reads."""
MAX_FIELDS = 10
"""How many fields of an unreadable event are logged."""

UNREADABLE = Counter("clusterra_events_unreadable_total", "Stored events that a page left out: they cannot be read")

log = structlog.get_logger(__name__)


class MergedViews:
    """The views of one table."""

    def __init__(self, store: Store, table: Table) -> None:
        self._store = store
        self._table = table

    async def items(
        self, views: Iterable[str], sort: Between, *, descending: bool, page_size: int
    ) -> AsyncGenerator[Item]:
        """The items of all views in a range, ascending or descending."""
        async with AsyncExitStack() as stack:
            sources = [
                await stack.enter_async_context(aclosing(self._view(view, sort, descending, page_size)))
                for view in views
            ]
            # Together: there may be one for each kind, and many of them are empty.
            try:
                async with asyncio.TaskGroup() as group:
                    firsts = [group.create_task(_next(source)) for source in sources]
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None
            heads = [
                (head, source)
                for first, source in zip(firsts, sources, strict=True)
                if (head := first.result()) is not None
            ]
            choose = max if descending else min
            while heads:
                nearest = choose(heads, key=lambda head: head[0].key.sk.encode())
                yield nearest[0]
                heads.remove(nearest)
                if (head := await _next(nearest[1])) is not None:
                    heads.append((head, nearest[1]))

    async def _view(self, pk: str, sort: Between, descending: bool, page_size: int) -> AsyncGenerator[Item]:
        """The items of a view. Each query reads twice as many as the one before: the more of them match nothing."""
        cursor = None
        while True:
            page = await self._store.query(
                self._table, pk, sort=sort, descending=descending, limit=page_size, cursor=cursor
            )
            for item in page.items:
                yield item
            if (cursor := page.cursor) is None:
                return
            page_size = max(page_size, min(2 * page_size, MAX_QUERY))


async def _next(items: AsyncGenerator[Item]) -> Item | None:
    return await anext(items, None)


def event_in(ref: ClusterRef, item: Item) -> Event | None:
    """The event of an item; None for one that cannot be read, which is logged and counted."""
    try:
        return Event.model_validate_json(str(item.attributes.get("event")))
    except ValidationError as error:
        UNREADABLE.inc()
        # Neither the values nor the errors' texts: an event may tell what its reader may not see.
        fields = sorted({".".join(map(str, each["loc"])) for each in error.errors()})[:MAX_FIELDS]
        log.warning("event_unreadable", tenant=ref.tenant, cluster=ref.cluster, item=item.key.sk, fields=fields)
        return None
