"""The event archive: every event once, found again by time, by entity and by kind."""

import base64
import binascii
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, aclosing
from datetime import datetime

from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import KINDS, Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.reply import RpcError
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import Put, Store, Table, TransactionCancelled

MAX_EXAMINED = 1000
"""The most items one page reads and leaves out; a page that hits it is short, and its cursor reads on."""

_SORT_KEY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z#.{1,200}", re.DOTALL)
_FIRST, _LAST = "0", ":"
"""Bounds of all sort keys, which begin with a digit."""


class Archive:
    """One table. An event is four items written in one transaction: its id, and a copy in each of three views.

    The views are partitions of one cluster ordered by the time of the event, so a page is a bounded read of
    neighbours: `<cluster>#time` has all, `<cluster>#subject#<entity>` and `<cluster>#kind#<kind>` have a part. The id
    item makes an event that is told again with another time still the same event. Ids count within the cluster of
    the NATS subject, so that no tenant can take another's.
    """

    def __init__(
        self, store: Store, table: Table, *, retention_seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._table = table
        self._retention_seconds = retention_seconds
        self._clock = clock

    async def keep(self, subject: Subject, event: Event, sequence: int) -> None:
        """Archive an event; one that is there already is left as it is.

        Raises InvalidMessage for an event on the subject of another kind, StoreUnavailable.
        """
        if event.kind != subject.rest:
            raise InvalidMessage(f"an event of kind {event.kind} was told as {subject.rest}")
        ref = subject.ref
        sort_key = f"{_sortable(event.time)}#{event.id}"
        expires_at = int(self._clock() + self._retention_seconds)
        copies = [
            Put(self._table, Key(view, sort_key), {"event": event.model_dump_json()}, Absent(), expires_at)
            for view in (_by_time(ref), _by_subject(ref, event.subject), _by_kind(ref, event.kind))
        ]
        claim = Put(
            self._table,
            Key(f"{ref.key}#id#{event.id}", "id"),
            {"sort_key": sort_key, "sequence": sequence},
            Absent(),
            expires_at,
        )
        try:
            await self._store.transact([claim, *copies], token=f"{ref.key}#{sort_key}")
        except TransactionCancelled as cancelled:
            if cancelled.reasons[0] is None:
                raise

    async def read(self, ref: ClusterRef, request: ReadHistory) -> HistoryPage:
        """One page of a cluster's events. Raises RpcFailed (`invalid`) for an unknown kind or a foreign cursor."""
        kinds = None if request.kinds is None else _expanded(request.kinds)
        if request.subject is not None:
            views = [_by_subject(ref, request.subject)]
        elif kinds is not None:
            views = [_by_kind(ref, kind) for kind in sorted(kinds)]
        else:
            views = [_by_time(ref)]
        position = None if request.cursor is None else _position(request.cursor)
        sort = _range(request, position)
        if sort is None:
            return HistoryPage(events=())
        events: list[Event] = []
        examined = 0
        last = ""
        page_size = -(-request.limit // max(len(views), 1)) + 2
        async with aclosing(self._merged(views, sort, request.newest_first, page_size)) as items:
            async for item in items:
                if item.key.sk == position:
                    continue
                if len(events) == request.limit or examined == MAX_EXAMINED:
                    return HistoryPage(events=tuple(events), cursor=_cursor(last))
                examined, last = examined + 1, item.key.sk
                event = Event.model_validate_json(str(item.attributes["event"]))
                if kinds is None or event.kind in kinds:
                    events.append(event)
        return HistoryPage(events=tuple(events))

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

    async def _view(self, pk: str, sort: Between, descending: bool, page_size: int) -> AsyncGenerator[Item]:
        cursor = None
        while True:
            page = await self._store.query(
                self._table, pk, sort=sort, descending=descending, limit=page_size, cursor=cursor
            )
            for item in page.items:
                yield item
            if (cursor := page.cursor) is None:
                return


def _sortable(moment: datetime) -> str:
    """A moment in UTC as text that orders like the moments."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _by_time(ref: ClusterRef) -> str:
    return f"{ref.key}#time"


def _by_subject(ref: ClusterRef, subject: str) -> str:
    return f"{ref.key}#subject#{subject}"


def _by_kind(ref: ClusterRef, kind: str) -> str:
    return f"{ref.key}#kind#{kind}"


def _expanded(kinds: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for given in kinds:
        family = given.removesuffix("*") if given.endswith(".*") else None
        matching = [kind for kind in KINDS if kind == given or (family is not None and kind.startswith(family))]
        if not matching:
            raise RpcFailed(
                RpcError(
                    kind="invalid", detail=f"there are no events of kind {given!r}", hint=f"kinds: {', '.join(KINDS)}"
                )
            )
        found.update(matching)
    return frozenset(found)


def _range(request: ReadHistory, position: str | None) -> Between | None:
    """Sort keys from `after` (included) to `before` (not included) that lie beyond `position`; None for none.

    A bare time sorts before all sort keys of that time.
    """
    low = _FIRST if request.after is None else _sortable(request.after)
    high = _LAST if request.before is None else _sortable(request.before)
    if position is not None:
        if request.newest_first:
            high = min(high, position)
        else:
            low = max(low, position)
    return Between(low, high) if low <= high else None


def _cursor(sort_key: str) -> str:
    return base64.urlsafe_b64encode(sort_key.encode()).decode()


def _position(cursor: str) -> str:
    try:
        sort_key = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
        if _SORT_KEY.fullmatch(sort_key):
            return sort_key
    except (binascii.Error, ValueError):
        pass
    raise RpcFailed(
        RpcError(kind="invalid", detail="this cursor is not of this history", hint="start again without a cursor")
    )
