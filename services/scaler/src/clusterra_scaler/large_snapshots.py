"""Passes on queue snapshots with the lists of their parts, one cluster at a time."""

import asyncio
from collections.abc import Callable

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT, InvalidMessage
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime import trace
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.queue_parts import read_parts
from prometheus_client import Counter

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 10.0

READ = Counter("clusterra_large_snapshots_total", "Queue snapshots in parts, by what came of them", ("outcome",))


class LargeSnapshots:
    """Passes one cluster's snapshots on, with their parts. Of several that wait, only the latest is read."""

    def __init__(self, client: Client, ref: ClusterRef, on_snapshot: Callable[[QueueSnapshot], None]) -> None:
        self._client = client
        self._ref = ref
        self._on_snapshot = on_snapshot
        self._latest: QueueSnapshot | None = None
        self._traceparent: str | None = None
        self._arrived = asyncio.Event()

    def receive(self, snapshot: QueueSnapshot) -> None:
        """Pass a snapshot on: at once if its lists are in it."""
        if snapshot.parts is None:
            self._latest = None
            self._on_snapshot(snapshot)
        elif self._latest is None or snapshot.generation > self._latest.generation:
            self._latest, self._traceparent = snapshot, trace.current()
            self._arrived.set()

    async def run(self) -> None:
        """Read the parts of the snapshots received, until cancelled."""
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        with structlog.contextvars.bound_contextvars(tenant=self._ref.tenant, cluster=self._ref.cluster):
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                if self._latest is not None:
                    try:
                        await self._read(self._latest, self._traceparent)
                        backoff.succeeded()
                    except (BusUnavailable, InvalidMessage) as error:
                        READ.labels("unreadable").inc()
                        log.warning("parts_not_read", reason=str(error))
                        await backoff.pause()
                    except Exception:
                        READ.labels("failed").inc()
                        log.exception("parts_failed")
                        await backoff.pause()

    async def _read(self, head: QueueSnapshot, traceparent: str | None) -> None:
        whole = await read_parts(self._client, self._ref, head)
        READ.labels("incomplete" if whole is None else "whole").inc()
        if whole is None:
            log.info("parts_incomplete", generation=head.generation)
        # A small snapshot that has come meanwhile is newer.
        elif self._latest is not None:
            with trace.extract({TRACEPARENT: traceparent} if traceparent else None):
                self._on_snapshot(whole)
