"""The event archive: stores every event once and finds it by time, entity, kind, owner and who acted."""

import base64
import binascii
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, from_epoch
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.visibility import may_see
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, Table, token_key

from clusterra_events.acts import Acts
from clusterra_events.archive_views import (
    by_position,
    by_time,
    keys_of,
    matching_kinds,
    narrow_views,
    position_key,
    sortable,
    split,
    views_of,
    wide_views,
)
from clusterra_events.merged_views import MergedViews, event_in
from clusterra_events.retention import Retention

MAX_EXAMINED = 1000
"""The maximum number of items that one page reads. A page that reaches it is short, and its cursor continues."""
READ_SECONDS = 1.5
"""After this time a page ends short, too. The gateway waits 5 s, of which the archive's progress may take 2 s."""

_SORT_KEY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z#.{1,221}", re.DOTALL)
_CURSOR = re.compile(rf"(?:(\d{{1,20}})@)?({_SORT_KEY.pattern})", re.DOTALL)
_FIRST, _LAST = "0", ":"
"""The bounds of all sort keys, which begin with a digit."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The end of pages that go with a position in the stream: they have no event that was published after it."""

    position: int
    counts_from: datetime | None = None
    """When the stream was created, if it counts from 1: events before then are of an earlier stream, whose positions
    mean nothing in this one. None for a stream that has no position of an earlier one."""

    def excludes(self, sort_key: str) -> bool:
        """Whether an item is of an event after the position."""
        moment, sequence, _ = sort_key.split("#", 2)
        return int(sequence) > self.position and (self.counts_from is None or moment >= sortable(self.counts_from))


class Archive:
    """Events in one table: of each its id, and then a copy in each of its views (`archive_views`), in one batch.

    A page is a bounded read of neighbouring items of some views. The id item recognises an event that is published
    again with another time. Ids are unique within the cluster of the NATS subject, so that no tenant can block the ids
    of another.

    The batch needs no transaction, which costs twice as much. Its items depend on the message alone, and a message is
    acknowledged after all of them are written. So whoever is given it again writes the same items again.
    """

    def __init__(
        self,
        store: Store,
        table: Table,
        *,
        retention: Retention,
        whole_from: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`whole_from`: from which time on, in epoch seconds, the narrow views have all their events; None: unknown."""
        self._store = store
        self._table = table
        self._views = MergedViews(store, table)
        self._retention = retention
        self._whole_from = whole_from
        self._clock = clock

    async def keep(self, subject: Subject, event: Event, sequence: int) -> None:
        """Archive an event, unless it is archived already.

        Raises InvalidMessage for one on the subject of another kind or without keys; StoreUnavailable: then repeat it.
        """
        if event.kind != subject.rest:
            raise InvalidMessage(f"an event of kind {event.kind} was published on the subject of {subject.rest}")
        ref = subject.ref
        # Slurm's times are whole seconds: of two events of one second, the one that was published first is first.
        sort_key = f"{sortable(event.time)}#{sequence:020d}#{event.id}"
        now = self._clock()
        expires_at = int(now + self._retention.seconds(event.kind))
        id_key, _ = keys_of(ref, event, sort_key)
        id_item = Put(self._table, id_key, {"sort_key": sort_key, "sequence": sequence}, Absent(), expires_at)
        body: Attributes = {"event": event.model_dump_json(), "archived_at": int(now)}
        try:
            await self._store.write(id_item)
        except ConditionFailed as failed:
            place = sort_key if failed.current is None else str(failed.current.attributes.get("sort_key"))
            if place != sort_key:
                _, keys = keys_of(ref, event, place)
                await self._complete([Put(self._table, key, body, Absent(), expires_at) for key in keys])
                return
        _, keys = keys_of(ref, event, sort_key)
        await self._store.put_all([Put(self._table, key, body, Absent(), expires_at) for key in keys])

    async def _complete(self, copies: Iterable[Put]) -> None:
        """Write the copies that an earlier message with this event lacks: it may have been given up in between."""
        for copy in copies:
            with suppress(ConditionFailed):
                await self._store.write(copy)

    async def read(self, ref: ClusterRef, request: ReadHistory, bound: Bound | None = None) -> HistoryPage:
        """Read one page of a cluster's events. Raises RpcFailed (`invalid`) for an unknown kind or a foreign cursor."""
        return await self.read_all((ref,), request, bound)

    async def read_all(
        self, refs: Sequence[ClusterRef], request: ReadHistory, bound: Bound | None = None
    ) -> HistoryPage:
        """Read one page of the events of several clusters of a tenant, as of one. An act of an admin that each of them
        was told is in it once.
        """
        kinds = None if request.kinds is None else matching_kinds(request.kinds)
        page = HistoryPage(
            events=(),
            position=None if bound is None else bound.position,
            kept_from=from_epoch(self._clock() - self._retention.shortest(kinds)),
        )
        position = None if request.cursor is None else _position(request.cursor)[1]
        sort = _range(request, position)
        if sort is None:
            return page
        clusters = {ref.key: ref for ref in refs}
        events: list[Event] = []
        acts = Acts(len(clusters))
        examined, last = 0, ""
        late_at = time.monotonic() + READ_SECONDS
        async with aclosing(self._items(tuple(refs), request, kinds, sort)) as items:
            async for item in items:
                if item.key.sk == position:
                    continue
                late = examined > 0 and time.monotonic() >= late_at
                ref = clusters[item.key.pk.partition("#")[0]]
                full = len(events) == request.limit or examined == MAX_EXAMINED or late
                # The copies of an act have one time: no page ends between them.
                if full and not acts.told(ref, item.key.sk):
                    return page.model_copy(update={"events": tuple(events), "cursor": _cursor(last, page.position)})
                examined, last = examined + (not full), item.key.sk
                if full or (bound is not None and bound.excludes(item.key.sk)) or acts.told(ref, item.key.sk):
                    continue
                event = event_in(ref, item)
                if event is None or (kinds is not None and event.kind not in kinds):
                    continue
                if request.viewer is None or may_see(request.viewer, event.data):
                    events.append(event)
                    acts.note(ref, item.key.sk, event)
        return page.model_copy(update={"events": tuple(events)})

    async def _items(
        self, refs: Sequence[ClusterRef], request: ReadHistory, kinds: frozenset[str] | None, sort: Between
    ) -> AsyncGenerator[Item]:
        """The items that may match a request, in its order: from the narrow view for the time in which it is whole."""
        wide = wide_views(refs, request.subject, kinds)
        narrow = () if request.subject is not None else narrow_views(refs, request.viewer, kinds)
        parts = [(wide, sort)]
        if narrow and (whole_from := self._whole_from()) is not None:
            before, whole = split(sort, sortable(from_epoch(whole_from)))
            if self._clock() - whole_from > self._retention.longest:
                before = None  # what was archived before the view was whole has expired
            parts = [(views, part) for views, part in ((wide, before), (narrow, whole)) if part is not None]
            if request.newest_first:
                parts.reverse()
        for views, part in parts:
            page_size = -(-request.limit // max(len(views), 1)) + 2
            merged = self._views.items(views, part, descending=request.newest_first, page_size=page_size)
            async with aclosing(merged) as items:
                async for item in items:
                    yield item

    async def forget(self, ref: ClusterRef, most: int) -> int:
        """Remove at most `most` events of a cluster that is deleted, oldest first. Returns how many it removed.

        An event leaves the view by time last. So whoever goes on after a crash finds what is left of it.
        """
        page = await self._store.query(self._table, by_time(ref), limit=most)
        for item in page.items:
            for key in (*_copies(ref, item), item.key):
                await self._store.delete(Delete(self._table, key))
        return len(page.items)


def _copies(ref: ClusterRef, item: Item) -> tuple[Key, ...]:
    """The keys of what was written together with an event of the view by time.

    Of its token too: the release before wrote an event in a transaction.

    Of an event that cannot be read, the copies in the other views are not known. They stay until they expire.
    """
    event_id = item.key.sk.split("#", 2)[2]
    known = (
        Key(f"{ref.key}#id#{event_id}", "id"),
        token_key(f"{ref.key}#{item.key.sk}"),
        Key(by_position(ref), position_key(item.key.sk)),
    )
    event = event_in(ref, item)
    if event is None:
        return known
    copies = [Key(view, item.key.sk) for view in views_of(ref, event) if view != by_time(ref)]
    return (*copies, *known)


def _range(request: ReadHistory, position: str | None) -> Between | None:
    """The sort keys from `after` (inclusive) to `before` (exclusive) beyond `position`; None if there are none.

    A time alone sorts before all sort keys of that time.
    """
    low = _FIRST if request.after is None else sortable(request.after)
    high = _LAST if request.before is None else sortable(request.before)
    if position is not None:
        if request.newest_first:
            high = min(high, position)
        else:
            low = max(low, position)
    return Between(low, high) if low <= high else None


def complete_to(request: ReadHistory) -> int | None:
    """Return the position up to which a page is to be complete: that of the first page, for those that continue it.

    Raises RpcFailed (`invalid`) for a foreign cursor.
    """
    return request.complete_to if request.cursor is None else _position(request.cursor)[0]


def _cursor(sort_key: str, upto: int | None) -> str:
    text = sort_key if upto is None else f"{upto}@{sort_key}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _position(cursor: str) -> tuple[int | None, str]:
    """Return the position up to which the pages of a cursor are complete, and the sort key after which it continues."""
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
        if match := _CURSOR.fullmatch(text):
            return int(match[1]) if match[1] else None, match[2]
    except (binascii.Error, ValueError):
        pass
    raise RpcFailed(
        RpcError(kind="invalid", detail="the cursor does not belong to this history", hint="start without a cursor")
    )
