"""Which clusters' edges are connected, by the age of their last heartbeat."""

import time
from collections.abc import Iterable
from typing import Literal

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import HB
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last_stored
from clusterra_runtime.nats.streams.heartbeats import HeartbeatReader

ConnectionState = Literal["connected", "disconnected"]

MISSED_HEARTBEATS = 3
"""An edge that missed more heartbeats than this is disconnected."""


class EdgeConnections:
    """Notes when each edge was last heard, by this process' own clock: an edge's clock may be wrong."""

    def __init__(self) -> None:
        self._heard_at: dict[ClusterRef, float] = {}

    async def follow(self, client: Client, refs: Iterable[ClusterRef]) -> HeartbeatReader:
        """Reads the last heartbeat of each cluster. Returns the reader of later heartbeats, which the caller runs.

        Raises BusUnavailable.
        """
        reader = HeartbeatReader(client, self._on_heartbeat)
        await reader.begin()
        for ref in refs:
            await self._restore(client, ref)
        return reader

    def state(self, ref: ClusterRef) -> ConnectionState:
        """Whether the cluster's edge is connected."""
        heard_at = self._heard_at.get(ref)
        if heard_at is None or time.monotonic() - heard_at > MISSED_HEARTBEATS * HEARTBEAT_SECONDS:
            return "disconnected"
        return "connected"

    def _on_heartbeat(self, subject: Subject, _heartbeat: Heartbeat) -> None:
        self._heard_at[subject.ref] = time.monotonic()

    async def _restore(self, client: Client, ref: ClusterRef) -> None:
        """Notes the last heartbeat before the reader began, by the clock of the NATS server that stored it."""
        found = await last_stored(client, HB.name, subjects.heartbeat(ref))
        if found is not None and found.stored_at is not None:
            age = max(0.0, (now() - found.stored_at).total_seconds())
            self._heard_at.setdefault(ref, time.monotonic() - age)
