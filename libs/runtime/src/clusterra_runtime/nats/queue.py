"""Reads the last queue snapshot of a cluster that is stored."""

import asyncio

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.large_queue import decode_head, decode_snapshot
from clusterra_contracts.bus.topology import JOB
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot

from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import last_stored

DECODED_ON_THREAD_FROM_BYTES = 64 * 1024
"""Reading a larger snapshot would hold up other tasks for more than a millisecond."""


async def last_snapshot(client: Client, ref: ClusterRef) -> QueueSnapshot | None:
    """Return the last snapshot, a large one with its lists; None if there is none.

    Raises BusUnavailable and InvalidMessage.
    """
    stored = await last_stored(client, JOB.name, subjects.job_sharded(ref))
    if stored is None:
        return None
    if len(stored.body) < DECODED_ON_THREAD_FROM_BYTES:
        return decode_snapshot(stored.body, stored.headers)
    return await asyncio.to_thread(decode_snapshot, stored.body, stored.headers)


async def last_head(client: Client, ref: ClusterRef) -> QueueSnapshot | None:
    """Return the last snapshot, of a large one only its head; None if there is none.

    Raises BusUnavailable and InvalidMessage.
    """
    stored = await last_stored(client, JOB.name, subjects.job_sharded(ref))
    return None if stored is None else decode_head(stored.body, stored.headers)
