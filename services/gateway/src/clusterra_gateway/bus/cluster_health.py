"""Which clusters' edges are connected, by the age of their last heartbeat, what they report, and who is degraded."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import CONDITIONS, HB, SCALE
from clusterra_contracts.condition import ClusterCondition
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Heartbeat
from clusterra_contracts.identity import ClusterRef, Id, now
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats import direct
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.direct import last_stored, replay
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.heartbeats import HeartbeatReader, last_heartbeat

log = structlog.get_logger()

ConnectionState = Literal["connected", "disconnected"]

MISSED_HEARTBEATS = 3
"""An edge that missed more heartbeats than this is disconnected."""
READ_SECONDS = 2.0
"""How long a read of conditions may take."""
_PREFIX = f"$KV.{CONDITIONS.name}."


class EdgeConnections:
    """Notes when each edge was last heard, by this process' own clock: an edge's clock may be wrong."""

    def __init__(self) -> None:
        self._heard_at: dict[ClusterRef, float] = {}

    async def follow(self, client: Client, registry: Registry, refs: Iterable[ClusterRef]) -> HeartbeatReader:
        """Reads the last heartbeat of each cluster. Returns the reader of later heartbeats, which the caller runs.

        Raises BusUnavailable.
        """
        reader = HeartbeatReader(client, self._on_heartbeat, registry.max_heartbeat_bytes)
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


class Conditions:
    """Reads conditions at each request: there are few entries, because a healthy cluster needs none."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_tenant(self, tenant: Id) -> Mapping[ClusterRef, ClusterCondition] | None:
        """The stored conditions of a tenant's clusters; None when they cannot be read."""
        if not self._client.is_connected:
            return None
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._read(tenant)
        except (BusUnavailable, TimeoutError) as error:
            log.warning("conditions_not_read", tenant=tenant, reason=str(error) or type(error).__name__)
            return None

    async def _read(self, tenant: Id) -> dict[ClusterRef, ClusterCondition]:
        conditions: dict[ClusterRef, ClusterCondition] = {}
        async for entry in replay(self._client, f"KV_{CONDITIONS.name}", f"{_PREFIX}{tenant}.*"):
            try:
                ref = ClusterRef.from_key(entry.subject.removeprefix(_PREFIX))
                conditions[ref] = decode(ClusterCondition, entry.body, dict(entry.headers))
            except (InvalidMessage, ValueError) as error:
                log.warning("condition_unreadable", subject=entry.subject, reason=str(error))
        return conditions


async def has_nothing(client: Client, ref: ClusterRef, since: datetime) -> bool:
    """Whether an edge has said after `since` that it has no worker, and no worker is desired.

    A silent edge has said nothing. Raises BusUnavailable, InvalidMessage.
    """
    heard = await last_heartbeat(client, ref)
    if heard is None or heard[1] <= since or heard[0].workers is None or heard[0].workers:
        return False
    desired = await direct.last(client, SCALE.name, subjects.scale_desired(ref), DesiredState)
    return desired is None or not any(target.replicas for target in desired[0].targets or ())
