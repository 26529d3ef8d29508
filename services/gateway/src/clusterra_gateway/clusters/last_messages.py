"""Reads the last messages of a cluster: nothing is known of the cluster where one is not there or cannot be read."""

from collections.abc import Awaitable

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.queue import last_snapshot

log = structlog.get_logger()


async def last_or_none[T](ref: ClusterRef, reading: Awaitable[T | None]) -> T | None:
    """What the read returns; None where there is no message, it is unreadable, or NATS does not answer."""
    try:
        return await reading
    except (InvalidMessage, BusUnavailable) as error:
        log.warning("last_message_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
        return None


async def fresh_queue(client: Client, ref: ClusterRef) -> QueueSnapshot | None:
    """The last queue; None where there is none, or none that may still be true."""
    queue = await last_or_none(ref, last_snapshot(client, ref))
    fresh = queue is not None and (now() - queue.taken_at).total_seconds() <= queue.valid_seconds
    return queue if fresh else None
