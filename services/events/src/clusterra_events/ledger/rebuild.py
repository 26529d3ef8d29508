"""Builds the ledger of a cluster again from the archive, which has every event that the ledger ever took."""

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import ReadHistory

from clusterra_events.archive import Archive
from clusterra_events.ledger.journal import Journal

log = structlog.get_logger(__name__)

KINDS = ("job.*", "node.registered", "worker.*")
"""The kinds that the ledger takes something from."""
PAGE_EVENTS = 500


async def rebuild(archive: Archive, journal: Journal, ref: ClusterRef) -> int:
    """Take all archived events of a cluster again, and return how many. What is known already stays as it is.

    An event that the journal refuses is logged and left out.
    """
    taken = 0
    request = ReadHistory(kinds=KINDS, limit=PAGE_EVENTS)
    while True:
        page = await archive.read(ref, request)
        for event in page.events:
            try:
                await journal.take(Subject("event", ref, event.kind), event, 0)
            except InvalidMessage as error:
                log.warning("event_not_taken", tenant=ref.tenant, cluster=ref.cluster, id=event.id, reason=str(error))
            else:
                taken += 1
        if page.cursor is None:
            return taken
        request = request.model_copy(update={"cursor": page.cursor})
