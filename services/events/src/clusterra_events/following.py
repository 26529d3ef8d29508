"""Reads the archive in the order of the stream, for those who were away for longer than the stream keeps events.

An answer says up to which position it has every event after the one that was asked for. It says nothing where some of
them may have expired, or were archived by a release that kept no such order.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.visibility import may_see
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import Store, Table

from clusterra_events.archive_views import by_position
from clusterra_events.merged_views import MergedViews, event_in
from clusterra_events.retention import Retention

MAX_EXAMINED = 1000
"""The most items that one page reads."""
READ_SECONDS = 1.5
"""After this time a page ends short."""
MARGIN_SECONDS = 3600.0
"""How much earlier than an event, by the time of archiving, those after it in the stream may have been archived."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The archive has all events after a position in their order, and has had them since a time, in epoch seconds."""

    position: int
    since: float


class Following:
    """What follows a position in the stream."""

    def __init__(
        self,
        store: Store,
        table: Table,
        retention: Retention,
        whole: Callable[[], Whole | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._table = table
        self._views = MergedViews(store, table)
        self._retention = retention
        self._whole = whole
        self._clock = clock

    async def read(self, refs: Sequence[ClusterRef], request: ReadHistory, upto: int | None) -> HistoryPage:
        """Read a page of what follows `request.follows` in some clusters of a tenant, up to a position at most.

        `upto` is how far the archive has come; None: unknown.
        """
        after = request.follows or 0
        if upto is None or not await self._is_whole_after(refs, after):
            return HistoryPage(events=())
        if upto <= after:
            return HistoryPage(events=(), follows_to=after)
        clusters = {by_position(ref): ref for ref in refs}
        sort = Between(f"{after + 1:020d}", f"{upto + 1:020d}")
        page_size = -(-request.limit // len(clusters)) + 2
        events, positions = list[Event](), list[int]()
        examined, last = 0, after
        late_at = time.monotonic() + READ_SECONDS
        items = self._views.items(clusters, sort, descending=False, page_size=page_size)
        async with aclosing(items):
            async for item in items:
                late = examined > 0 and time.monotonic() >= late_at
                if len(events) == request.limit or examined == MAX_EXAMINED or late:
                    return HistoryPage(events=tuple(events), positions=tuple(positions), follows_to=last)
                examined, last = examined + 1, int(item.key.sk.partition("#")[0])
                event = event_in(clusters[item.key.pk], item)
                if event is not None and (request.viewer is None or may_see(request.viewer, event.data)):
                    events.append(event)
                    positions.append(last)
        return HistoryPage(events=tuple(events), positions=tuple(positions), follows_to=upto)

    async def _is_whole_after(self, refs: Sequence[ClusterRef], position: int) -> bool:
        """Whether nothing after a position has expired or was archived without its place."""
        whole = self._whole()
        if whole is None or position < whole.position:
            return False
        # What has been archived since then is still there.
        kept_since = self._clock() - self._retention.shortest() + MARGIN_SECONDS
        if whole.since > kept_since:
            return True
        for ref in refs:
            page = await self._store.query(
                self._table, by_position(ref), sort=Between("0", f"{position + 1:020d}"), descending=True, limit=1
            )
            for item in page.items:
                at = item.attributes.get("archived_at")
                if isinstance(at, int) and at > kept_since:
                    return True
        return False
