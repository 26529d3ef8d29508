"""Records in the cluster's history what people did to files.

The bucket and the record share no transaction, so the event is written after the change. A gateway that dies between
the two leaves no event. A written event is not lost, because the outbox of its item sends it.
"""

import secrets
from collections.abc import Iterator, Sequence
from datetime import timedelta

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import MAX_FACT_PATHS, FileFact, FileKind, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.store import Put

from clusterra_gateway.accounts.admin_events import SERVICE
from clusterra_gateway.accounts.keyspace import ACCOUNTS, file_event_key
from clusterra_gateway.accounts.records import Member, expiry
from clusterra_gateway.files.paths import FilePath

_KEPT = timedelta(days=2)
"""How long an item whose event was sent stays."""


class FileEvents:
    """Writes the events of files."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def tell(
        self,
        ref: ClusterRef,
        actor: Member,
        kind: FileKind,
        paths: Sequence[FilePath],
        destination: FilePath | None = None,
    ) -> None:
        """Tell that somebody did this to these files. Raises StoreUnavailable."""
        for some in _batches(paths):
            at, version = now(), secrets.token_hex(8)
            fact = FileFact(
                kind=kind,
                actor=actor.user,
                uid=actor.uid,
                paths=tuple(path.shown for path in some),
                destination="" if destination is None else destination.shown,
            )
            event = event_of(SERVICE, ref, fact, version=version, time=at)
            put = Put(ACCOUNTS, file_event_key(ref, version), {}, Absent(), expiry(at + _KEPT))
            await self._outbox.write(put, [OutboxMessage.of(event.id, subjects.event(ref, kind), event)])


def _batches(paths: Sequence[FilePath]) -> Iterator[Sequence[FilePath]]:
    for begin in range(0, len(paths), MAX_FACT_PATHS):
        yield paths[begin : begin + MAX_FACT_PATHS]
