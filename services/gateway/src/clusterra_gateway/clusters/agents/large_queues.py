"""The queues of clusters whose snapshots come in parts, for the answers to their agents' heartbeats."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.queue_parts import read_parts

log = structlog.get_logger()

READ_EVERY_SECONDS = 10.0
"""How often the parts of one cluster are read: 60,000 records are a second of CPU. `MAX_SNAPSHOT_AGE_SECONDS` says how
long a snapshot serves."""
MAX_CLUSTERS = 64
"""How many clusters are kept, those that were asked for last: a large one takes some 20 MiB."""


@dataclass(slots=True)
class _Kept:
    snapshot: QueueSnapshot | None = None
    read_at: float = float("-inf")
    reading: asyncio.Task[None] | None = None


class LargeQueues:
    """Keeps the last whole snapshot of each cluster that asks. No heartbeat waits for one: it gets the last known."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[ClusterRef, _Kept] = OrderedDict()
        self._turn = asyncio.Lock()

    def whole(self, ref: ClusterRef, head: QueueSnapshot) -> QueueSnapshot | None:
        """The snapshot if it has no parts; otherwise the last one that was read whole, without its pending jobs.

        None before the first one was read.
        """
        if head.parts is None:
            self._kept.pop(ref, None)
            return head
        kept = self._kept.setdefault(ref, _Kept())
        self._kept.move_to_end(ref)
        while len(self._kept) > MAX_CLUSTERS:
            self._kept.popitem(last=False)
        if kept.reading is None and time.monotonic() >= kept.read_at + READ_EVERY_SECONDS:
            kept.reading = asyncio.create_task(self._read(ref, head, kept))
        return kept.snapshot

    async def _read(self, ref: ClusterRef, head: QueueSnapshot, kept: _Kept) -> None:
        try:
            async with self._turn:
                found = await read_parts(self._client, ref, head)
            if found is not None:
                kept.snapshot, kept.read_at = found.model_copy(update={"pending": ()}), time.monotonic()
        except (BusUnavailable, InvalidMessage) as error:
            log.warning("queue_parts_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
            kept.read_at = time.monotonic()
        finally:
            kept.reading = None
