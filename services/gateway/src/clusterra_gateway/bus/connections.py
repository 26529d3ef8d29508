"""Whether a cluster's edge is connected, by the age of its last heartbeat."""

import time
from typing import Literal

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import HB
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last

ConnectionState = Literal["connected", "disconnected"]

MISSED = 3
"""Heartbeats that may be missed."""


class Connections:
    """Moments are this process' own: an edge's clock may be wrong."""

    def __init__(self) -> None:
        self._heard: dict[ClusterRef, float] = {}

    async def on_heartbeat(self, subject: Subject, _heartbeat: Heartbeat) -> None:
        """Note a heartbeat that came just now."""
        self._heard[subject.ref] = time.monotonic()

    async def recall(self, client: Client, ref: ClusterRef) -> None:
        """Note the last heartbeat before this process listened, by its sender's clock. Raises BusUnavailable."""
        try:
            found = await last(client, HB.name, subjects.heartbeat(ref), Heartbeat)
        except InvalidMessage:
            return
        if found is not None:
            age = max(0.0, (now() - found[0].sent_at).total_seconds())
            self._heard.setdefault(ref, time.monotonic() - age)

    def state(self, ref: ClusterRef) -> ConnectionState:
        """Connected, unless three heartbeats were missed."""
        heard = self._heard.get(ref)
        if heard is None or time.monotonic() - heard > MISSED * HEARTBEAT_SECONDS:
            return "disconnected"
        return "connected"
