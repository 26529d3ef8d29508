"""The queues of clusters, for the answers to their agents' heartbeats."""

import asyncio
import time
from dataclasses import dataclass

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.queue import last_head, last_snapshot

log = structlog.get_logger()

READ_EVERY_SECONDS = 10.0
"""How often the queue of one large cluster is read: 60,000 records are a second of CPU. `MAX_SNAPSHOT_AGE_SECONDS` says
how long a snapshot serves."""
MAX_CLUSTERS = 64
"""How many large clusters are kept, those that were asked for last: one takes some 20 MiB."""


@dataclass(slots=True)
class _Kept:
    snapshot: QueueSnapshot | None = None
    read_at: float = float("-inf")
    reading: asyncio.Task[None] | None = None


class Queues:
    """Reads the last snapshot of a cluster; of large ones, keeps what was read last.

    No heartbeat waits for the queue of a large cluster: it gets the last known.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._large = BoundedCache[ClusterRef, _Kept](MAX_CLUSTERS)
        self._turn = asyncio.Lock()

    async def last(self, ref: ClusterRef) -> QueueSnapshot | None:
        """Returns the last snapshot; of a large one the last that was read, without its pending jobs.

        None if there is no snapshot, or no large one was read yet. Raises BusUnavailable and InvalidMessage.
        """
        kept = self._large.get(ref)
        if kept is None or (kept.reading is None and time.monotonic() >= kept.read_at + READ_EVERY_SECONDS):
            head = await last_head(self._client, ref)
            if head is None or not head.is_head:
                self._large.pop(ref)
                return head
            kept = self._large.get(ref) or _Kept()
            if kept.reading is None:
                kept.reading = asyncio.create_task(self._read(ref, kept))
        self._large.put(ref, kept)
        return kept.snapshot

    async def _read(self, ref: ClusterRef, kept: _Kept) -> None:
        try:
            async with self._turn:
                found = await last_snapshot(self._client, ref)
            if found is not None:
                kept.snapshot = found.model_copy(update={"pending": ()})
        except (BusUnavailable, InvalidMessage) as error:
            log.warning("large_queue_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
        finally:
            kept.read_at, kept.reading = time.monotonic(), None
