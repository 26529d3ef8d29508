"""The event archive: stores every event once and finds it by time, entity and kind."""

import base64
import binascii
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import KINDS, Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.visibility import may_see
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.page import Between, all_items
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, Table, token_key
from prometheus_client import Counter
from pydantic import ValidationError

MAX_EXAMINED = 1000
"""The maximum number of items that one page reads. A page that reaches it is short, and its cursor continues."""
MAX_FIELDS = 10
"""How many fields of an unreadable event are logged."""

UNREADABLE = Counter("clusterra_events_unreadable_total", "Stored events that a page left out: they cannot be read")

log = structlog.get_logger(__name__)

_SORT_KEY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z#.{1,221}", re.DOTALL)
_CURSOR = re.compile(rf"(?:(\d{{1,20}})@)?({_SORT_KEY.pattern})", re.DOTALL)
_FIRST, _LAST = "0", ":"
"""The bounds of all sort keys, which begin with a digit."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The end of pages that go with a position in the stream: they have no event that was published after it."""

    position: int
    stream_created: datetime
    """Events before it are of an earlier stream, whose positions mean nothing in this one."""

    def excludes(self, sort_key: str) -> bool:
        """Whether an item is of an event after the position."""
        moment, sequence, _ = sort_key.split("#", 2)
        return int(sequence) > self.position and moment >= _sortable(self.stream_created)


class Archive:
    """Events in one table. An event has four items: its id, and then a copy in each of three views, in one batch.

    The views are partitions of one cluster, ordered by the time of the event and then by its publication, so that a
    page is a bounded read of neighbouring items. `<cluster>#time` holds all events, `<cluster>#subject#<entity>` those
    of one entity and `<cluster>#kind#<kind>` those of one kind. The id item recognises an event that is published again
    with another time. Ids are unique within the cluster of the NATS subject, so that no tenant can block the ids of
    another.

    The batch needs no transaction, which costs twice as much. Its items depend on the message alone, and a message is
    acknowledged after all of them are written. So whoever is given it again writes the same items again.
    """

    def __init__(
        self, store: Store, table: Table, *, retention_seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._table = table
        self._retention_seconds = retention_seconds
        self._clock = clock

    async def keep(self, subject: Subject, event: Event, sequence: int) -> None:
        """Archive an event, unless it is archived already.

        Raises InvalidMessage for an event on the subject of another kind, and StoreUnavailable: then repeat it.
        """
        if event.kind != subject.rest:
            raise InvalidMessage(f"an event of kind {event.kind} was published on the subject of {subject.rest}")
        ref = subject.ref
        # Slurm's times are whole seconds: of two events of one second, the one that was published first is first.
        sort_key = f"{_sortable(event.time)}#{sequence:020d}#{event.id}"
        expires_at = int(self._clock() + self._retention_seconds)
        body = {"event": event.model_dump_json()}
        views = (_by_time(ref), _by_subject(ref, event.subject), _by_kind(ref, event.kind))
        copies = [Put(self._table, Key(view, sort_key), body, Absent(), expires_at) for view in views]
        id_item = Put(
            self._table,
            Key(f"{ref.key}#id#{event.id}", "id"),
            {"sort_key": sort_key, "sequence": sequence},
            Absent(),
            expires_at,
        )
        try:
            await self._store.write(id_item)
        except ConditionFailed as known:
            place = sort_key if known.current is None else str(known.current.attributes.get("sort_key"))
            if place != sort_key:
                await self._complete([replace(copy, key=Key(copy.key.pk, place)) for copy in copies])
                return
        await self._store.put_all(copies)

    async def _complete(self, copies: Iterable[Put]) -> None:
        """Write the copies that an earlier message with this event lacks: it may have been given up in between."""
        for copy in copies:
            with suppress(ConditionFailed):
                await self._store.write(copy)

    async def read(self, ref: ClusterRef, request: ReadHistory, bound: Bound | None = None) -> HistoryPage:
        """Read one page of a cluster's events. Raises RpcFailed (`invalid`) for an unknown kind or a foreign cursor."""
        upto = None if bound is None else bound.position
        kinds = None if request.kinds is None else _matching_kinds(request.kinds)
        if request.subject is not None:
            views = [_by_subject(ref, request.subject)]
        elif kinds is not None:
            views = [_by_kind(ref, kind) for kind in sorted(kinds)]
        else:
            views = [_by_time(ref)]
        position = None if request.cursor is None else _position(request.cursor)[1]
        sort = _range(request, position)
        if sort is None:
            return HistoryPage(events=(), position=upto)
        events: list[Event] = []
        examined = 0
        last = ""
        page_size = -(-request.limit // max(len(views), 1)) + 2
        async with aclosing(self._merged(views, sort, request.newest_first, page_size)) as items:
            async for item in items:
                if item.key.sk == position:
                    continue
                if len(events) == request.limit or examined == MAX_EXAMINED:
                    return HistoryPage(events=tuple(events), cursor=_cursor(last, upto), position=upto)
                examined, last = examined + 1, item.key.sk
                if bound is not None and bound.excludes(item.key.sk):
                    continue
                event = _event_of(ref, item)
                if event is None or (kinds is not None and event.kind not in kinds):
                    continue
                if request.viewer is None or may_see(request.viewer, event.data):
                    events.append(event)
        return HistoryPage(events=tuple(events), position=upto)

    async def forget(self, ref: ClusterRef, most: int) -> int:
        """Remove at most `most` events of a cluster that is deleted, oldest first. Returns how many it removed.

        An event leaves the view by time last. So whoever goes on after a crash finds what is left of it.
        """
        page = await self._store.query(self._table, _by_time(ref), limit=most)
        for item in page.items:
            for key in (*_copies(ref, item), item.key):
                await self._store.delete(Delete(self._table, key))
        return len(page.items)

    async def _merged(
        self, views: Iterable[str], sort: Between, descending: bool, page_size: int
    ) -> AsyncGenerator[Item]:
        async with AsyncExitStack() as stack:
            heads: list[tuple[Item, AsyncGenerator[Item]]] = []
            for view in views:
                items = await stack.enter_async_context(aclosing(self._view(view, sort, descending, page_size)))
                if (head := await anext(items, None)) is not None:
                    heads.append((head, items))
            choose = max if descending else min
            while heads:
                first = choose(heads, key=lambda head: head[0].key.sk.encode())
                yield first[0]
                heads.remove(first)
                if (head := await anext(first[1], None)) is not None:
                    heads.append((head, first[1]))

    def _view(self, pk: str, sort: Between, descending: bool, page_size: int) -> AsyncGenerator[Item]:
        return all_items(
            lambda after: self._store.query(
                self._table, pk, sort=sort, descending=descending, limit=page_size, cursor=after
            )
        )


def _event_of(ref: ClusterRef, item: Item) -> Event | None:
    """The event of an item; None for one that cannot be read, which is logged and counted."""
    try:
        return Event.model_validate_json(str(item.attributes.get("event")))
    except ValidationError as error:
        UNREADABLE.inc()
        # Neither the values nor the errors' texts: an event may tell what its reader may not see.
        fields = sorted({".".join(map(str, each["loc"])) for each in error.errors()})[:MAX_FIELDS]
        log.warning("event_unreadable", tenant=ref.tenant, cluster=ref.cluster, item=item.key.sk, fields=fields)
        return None


def _copies(ref: ClusterRef, item: Item) -> tuple[Key, ...]:
    """The keys of what was written together with an event of the view by time.

    Of its token too: the release before wrote an event in a transaction.

    Of an event that cannot be read, the copies in the other views are not known. They stay until they expire.
    """
    event_id = item.key.sk.split("#", 2)[2]
    known = (Key(f"{ref.key}#id#{event_id}", "id"), token_key(f"{ref.key}#{item.key.sk}"))
    event = _event_of(ref, item)
    if event is None:
        return known
    views = (_by_subject(ref, event.subject), _by_kind(ref, event.kind))
    return (*(Key(view, item.key.sk) for view in views), *known)


def _sortable(moment: datetime) -> str:
    """A UTC timestamp as a string whose order is that of the timestamps."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _by_time(ref: ClusterRef) -> str:
    return f"{ref.key}#time"


def _by_subject(ref: ClusterRef, subject: str) -> str:
    return f"{ref.key}#subject#{subject}"


def _by_kind(ref: ClusterRef, kind: str) -> str:
    return f"{ref.key}#kind#{kind}"


def _matching_kinds(patterns: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for pattern in patterns:
        family = pattern.removesuffix("*") if pattern.endswith(".*") else None
        matching = [kind for kind in KINDS if kind == pattern or (family is not None and kind.startswith(family))]
        if not matching:
            raise RpcFailed(
                RpcError(kind="invalid", detail=f"unknown event kind {pattern!r}", hint=f"kinds: {', '.join(KINDS)}")
            )
        found.update(matching)
    return frozenset(found)


def _range(request: ReadHistory, position: str | None) -> Between | None:
    """The sort keys from `after` (inclusive) to `before` (exclusive) beyond `position`; None if there are none.

    A time alone sorts before all sort keys of that time.
    """
    low = _FIRST if request.after is None else _sortable(request.after)
    high = _LAST if request.before is None else _sortable(request.before)
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
