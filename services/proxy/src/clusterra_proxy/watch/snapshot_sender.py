"""Sends a queue snapshot as one message: a small one as JSON, a large one compressed, and written on a thread."""

import asyncio

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import MESSAGE_ID, encode
from clusterra_contracts.bus.large_queue import encode_large
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from prometheus_client import Counter

LARGE_RECORDS = 5000
"""A snapshot of more records, which are jobs, ranges of array tasks and nodes, is large."""
SMALL_BYTES = 512 * 1024
"""So is one whose message is larger."""
QUICK_RECORDS = 500
"""A snapshot of so many records is taken and written within a few milliseconds, a larger one on a thread."""

SENT_BYTES = Counter("clusterra_snapshot_sent_bytes_total", "Bytes of queue snapshots, as sent", ("form",))


def record_count(snapshot: QueueSnapshot) -> int:
    """How many records a snapshot has."""
    pending = snapshot.pending or ()
    ranges = sum(len(tasks) for group in pending for tasks in group.array_tasks.values())
    return (
        sum(len(group.job_ids) for group in pending) + ranges + len(snapshot.running or ()) + len(snapshot.nodes or ())
    )


async def send_snapshot(client: Client, ref: ClusterRef, snapshot: QueueSnapshot) -> None:
    """Send a snapshot of a cluster. Raises QueueTooLarge, BusUnavailable, and MessageRejected."""
    form, (body, headers) = await _written(snapshot)
    headers[MESSAGE_ID] = f"{ref.key}:snapshot:{snapshot.generation}"
    await bus.store(client, subjects.job_pending(ref), body, headers)
    SENT_BYTES.labels(form).inc(len(body))


async def _written(snapshot: QueueSnapshot) -> tuple[str, tuple[bytes, dict[str, str]]]:
    count = record_count(snapshot)
    if count <= LARGE_RECORDS:
        whole = encode(snapshot) if count <= QUICK_RECORDS else await asyncio.to_thread(encode, snapshot)
        if len(whole[0]) <= SMALL_BYTES:
            return "small", whole
    return "large", await asyncio.to_thread(encode_large, snapshot)
