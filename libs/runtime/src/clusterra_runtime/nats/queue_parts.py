"""Reads the parts of large queue snapshots, and joins them beside the event loop."""

import asyncio

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.topology import JOB_PART
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueParts, QueueSnapshot
from clusterra_contracts.queue_parts.join import InvalidPart, join
from clusterra_contracts.queue_parts.part import QueuePart

from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, last_stored


async def read_parts(client: Client, ref: ClusterRef, head: QueueSnapshot) -> QueueSnapshot | None:
    """Return a snapshot with the lists in its parts; None if they are not all there: a newer snapshot follows.

    A snapshot without parts is returned as it is. Raises BusUnavailable and InvalidMessage.
    """
    if head.parts is None:
        return head
    found = await _stored_parts(client, ref, head.parts)
    return None if found is None else await asyncio.to_thread(_join, head, found)


async def _stored_parts(client: Client, ref: ClusterRef, parts: QueueParts) -> list[Stored] | None:
    found: list[Stored] = []
    for number in range(parts.count):
        stored = await last_stored(client, JOB_PART.name, subjects.job_part(ref, parts.slot, number))
        if stored is None:
            return None
        found.append(stored)
    return found


def _join(head: QueueSnapshot, found: list[Stored]) -> QueueSnapshot | None:
    try:
        return join(head, [decode(QueuePart, stored.body, dict(stored.headers)) for stored in found])
    except InvalidPart as error:
        raise InvalidMessage(str(error)) from error
