"""Sends a queue snapshot: a small one as one message, a large one in parts, followed by a message that counts them."""

import asyncio

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import MESSAGE_ID, encode, pack
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.queue_parts.part import QueuePart
from clusterra_contracts.queue_parts.split import PART_BYTES, Splitter
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from prometheus_client import Counter

LARGE_RECORDS = 5000
"""A snapshot of more records, which are jobs, ranges of array tasks and nodes, is sent in parts."""
QUICK_RECORDS = 500
"""A snapshot of so many records is taken and written within a few milliseconds, a larger one on a thread."""

SENT_BYTES = Counter("clusterra_snapshot_sent_bytes_total", "Bytes of queue snapshots, as sent", ("form",))

type Packed = tuple[bytes, dict[str, str]]


def record_count(snapshot: QueueSnapshot) -> int:
    """How many records a snapshot has."""
    pending = snapshot.pending or ()
    ranges = sum(len(tasks) for group in pending for tasks in group.array_tasks.values())
    return (
        sum(len(group.job_ids) for group in pending) + ranges + len(snapshot.running or ()) + len(snapshot.nodes or ())
    )


class SnapshotSender:
    """Sends the snapshots of one cluster, one after the other."""

    def __init__(self, client: Client, ref: ClusterRef) -> None:
        self._client = client
        self._ref = ref
        self._slot = 0
        self._splitter = Splitter()

    def continue_after(self, stored: QueueSnapshot) -> None:
        """Leave the parts of the last stored snapshot alone: somebody may be reading them."""
        if stored.parts is not None:
            self._slot = 1 - stored.parts.slot

    async def send(self, snapshot: QueueSnapshot) -> None:
        """Send a snapshot. Raises QueueTooLarge, BusUnavailable, and MessageRejected."""
        count = record_count(snapshot)
        if count <= LARGE_RECORDS:
            whole = encode(snapshot) if count <= QUICK_RECORDS else await asyncio.to_thread(encode, snapshot)
            if len(whole[0]) <= PART_BYTES:
                await self._store(subjects.job_pending(self._ref), whole, f"snapshot:{snapshot.generation}", "whole")
                return
        head, parts = await asyncio.to_thread(_packed, self._splitter, snapshot, self._slot)
        for number, part in enumerate(parts):
            subject = subjects.job_part(self._ref, self._slot, number)
            await self._store(subject, part, f"part:{snapshot.generation}:{number}", "part")
        await self._store(subjects.job_pending(self._ref), head, f"snapshot:{snapshot.generation}", "part")
        self._slot = 1 - self._slot

    async def _store(self, subject: str, message: Packed, message_id: str, form: str) -> None:
        body, headers = message
        headers[MESSAGE_ID] = f"{self._ref.key}:{message_id}"
        await bus.store(self._client, subject, body, headers)
        SENT_BYTES.labels(form).inc(len(body))


def _packed(splitter: Splitter, snapshot: QueueSnapshot, slot: int) -> tuple[Packed, list[Packed]]:
    head, parts = splitter.split(snapshot, slot)
    return encode(head), [pack(QueuePart.schema_name, part) for part in parts]
