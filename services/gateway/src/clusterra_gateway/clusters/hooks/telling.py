"""Tells an event of a site once, whoever sends it again and however late.

The stream drops a repetition for ten minutes only. So each event leaves a mark in the record, which carries it until
it is published. Where the proxy reads the same Slurm, it has told an older event already, and the archive has it.
"""

from collections.abc import Sequence
from datetime import timedelta

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import DEDUPLICATION_SECONDS
from clusterra_contracts.events import Event
from clusterra_contracts.hook_http import ToldEvent
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.store import ConditionFailed, Put

from clusterra_gateway.accounts.keyspace import ACCOUNTS, hook_event_key
from clusterra_gateway.accounts.records import expiry
from clusterra_gateway.bus.requests import HistoryRequests

KEPT = timedelta(days=31)
"""How long an event is known to be told. A hook gives up what it could not send for a week."""
_LATE = timedelta(seconds=DEDUPLICATION_SECONDS / 2)
"""From this age on, the archive is asked: the stream may no longer recognise what the proxy has told."""


class Telling:
    """Publishes what sites tell, through the outbox."""

    def __init__(self, outbox: Outbox, archive: HistoryRequests) -> None:
        self._outbox = outbox
        self._archive = archive

    async def tell(self, ref: ClusterRef, events: Sequence[Event]) -> tuple[ToldEvent, ...]:
        """Tell each of these events unless it was told. Raises StoreUnavailable and RpcFailed: then send it again."""
        return tuple([await self._tell(ref, event) for event in events])

    async def _tell(self, ref: ClusterRef, event: Event) -> ToldEvent:
        archived = now() - event.time > _LATE and await self._is_archived(ref, event)
        mark = Put(ACCOUNTS, hook_event_key(ref, event.id), {}, Absent(), expiry(now() + KEPT))
        message = OutboxMessage.of(event.id, subjects.event(ref, event.kind), event)
        try:
            await self._outbox.write(mark, [] if archived else [message])
        except ConditionFailed:
            archived = True
        return ToldEvent(id=event.id, kind=event.kind, is_new=not archived)

    async def _is_archived(self, ref: ClusterRef, event: Event) -> bool:
        # A job has one event of a kind for each run, a machine few.
        request = ReadHistory(kinds=(event.kind,), subject=event.subject, newest_first=True, limit=50)
        page = await self._archive.history(ref, request)
        return any(each.id == event.id for each in page.events)
