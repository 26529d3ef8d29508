"""Publishes the price of each worker as an event, whenever it changes, from heartbeats and the catalogue.

Every replica of the service publishes all prices. The events of two that read the same heartbeat have the same ids.
After a restart a replica publishes each price again: the same price from a later moment on changes no account.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

import structlog
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import PriceFact
from clusterra_contracts.heartbeat import Heartbeat, Lifecycle, NodeClaim, Worker
from clusterra_contracts.identity import ClusterRef, WorkerName
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.bus import BusUnavailable, MessageRejected
from clusterra_runtime.nats.events import EventPublisher

from clusterra_events.ledger.charge import microseconds

log = structlog.get_logger(__name__)

VALID_SECONDS = 90.0
"""How long a price counts as confirmed: as long as receivers keep the prices of a heartbeat."""
CHECK_SECONDS = 5.0
RETRY_SECONDS = 1.0
MAX_WAITING = 20_000
"""How many events may wait for the bus. What does not fit is published with a later heartbeat."""

type Machine = tuple[str, Lifecycle, str]
"""The instance type, the lifecycle and the zone."""


@dataclass(slots=True)
class _Edge:
    """What is known of one cluster's prices."""

    prices: dict[Machine, int] = field(default_factory=dict)
    """In micro-USD per hour."""
    confirmed: float = 0.0
    """When the edge last reported prices, on the monotonic clock."""
    confirmed_at: datetime | None = None
    told: dict[tuple[WorkerName, datetime], PriceFact] = field(default_factory=dict)


class PriceTeller:
    """Follows the heartbeats of all clusters."""

    def __init__(
        self,
        publisher: EventPublisher,
        clusters: Mapping[ClusterRef, ClusterBinding],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._clusters = clusters
        self._clock = clock
        self._edges: dict[ClusterRef, _Edge] = {}
        self._waiting: deque[tuple[ClusterRef, PriceFact, datetime]] = deque()
        self._changed = asyncio.Event()

    def on_heartbeat(self, subject: Subject, heartbeat: Heartbeat) -> None:
        """Take note of the prices of the workers in a heartbeat."""
        ref = subject.ref
        binding = self._clusters.get(ref)
        if binding is None or heartbeat.workers is None:
            return
        edge = self._edges.setdefault(ref, _Edge())
        if heartbeat.prices is not None:
            edge.prices = {
                (each.instance_type, each.lifecycle, each.zone): micro_usd(each.usd_per_hour)
                for each in heartbeat.prices
            }
            edge.confirmed, edge.confirmed_at = self._clock(), heartbeat.sent_at
        present = {(worker.name, worker.started_at) for worker in heartbeat.workers}
        edge.told = {key: fact for key, fact in edge.told.items() if key in present}
        claims = {claim.node_name: claim for claim in heartbeat.node_claims or () if claim.node_name}
        # An edge that has never reported machines or their prices cannot know them: its workers have the list price.
        listed = heartbeat.node_claims is None and edge.confirmed_at is None
        for worker in heartbeat.workers:
            claim = claims.get(worker.node)
            fact = _list_price(worker, binding) if listed else self._machine_price(edge, worker, claim)
            if fact is not None:
                self._tell(ref, edge, fact, heartbeat.sent_at)

    async def run(self) -> None:
        """Publish new prices, and which prices have become stale, until cancelled."""
        while True:
            self._changed.clear()
            await self.tell()
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._changed.wait()

    async def tell(self) -> None:
        """Publish everything that waits now."""
        for ref, edge in self._edges.items():
            self._tell_stale(ref, edge)
        await self._publish()

    def _machine_price(self, edge: _Edge, worker: Worker, claim: NodeClaim | None) -> PriceFact | None:
        """The price of the worker's machine; the last one, while the edge reports none. None while none is known."""
        last = edge.told.get((worker.name, worker.started_at))
        usd = None
        if claim is not None and claim.lifecycle is not None:
            usd = edge.prices.get((claim.instance_type, claim.lifecycle, claim.zone))
        if usd is None:
            return last
        return PriceFact(
            worker=worker.name,
            shape=worker.shape,
            started_at=worker.started_at,
            micro_usd_per_hour=usd,
            source="machine",
            stale=self._clock() - edge.confirmed > VALID_SECONDS,
            billable_from=claim.billable_from if claim is not None else None,
        )

    def _tell_stale(self, ref: ClusterRef, edge: _Edge) -> None:
        if edge.confirmed_at is None or self._clock() - edge.confirmed <= VALID_SECONDS:
            return
        since = edge.confirmed_at + timedelta(seconds=VALID_SECONDS)
        for fact in tuple(edge.told.values()):
            if fact.source == "machine" and not fact.stale:
                self._tell(ref, edge, fact.model_copy(update={"stale": True}), since)

    def _tell(self, ref: ClusterRef, edge: _Edge, fact: PriceFact, at: datetime) -> None:
        key = (fact.worker, fact.started_at)
        if edge.told.get(key) == fact or len(self._waiting) >= MAX_WAITING:
            return
        edge.told[key] = fact
        self._waiting.append((ref, fact, at))
        self._changed.set()

    async def _publish(self) -> None:
        while self._waiting:
            ref, fact, at = self._waiting[0]
            version = f"{microseconds(fact.started_at) // 1000}.{microseconds(at) // 1000}"
            try:
                await self._publisher.publish(ref, fact, version=version, time=at)
            except BusUnavailable as error:
                log.warning("prices_kept_for_later", waiting=len(self._waiting), reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except MessageRejected as error:
                log.error("price_not_told", worker=fact.worker, reason=str(error))  # noqa: TRY400
            self._waiting.popleft()


def micro_usd(usd: float) -> int:
    """A price as heartbeats and the catalogue have it, in whole millionths."""
    return int((Decimal(repr(usd)) * 1_000_000).to_integral_value())


def _list_price(worker: Worker, binding: ClusterBinding) -> PriceFact | None:
    if worker.shape not in binding.catalogue:
        return None
    return PriceFact(
        worker=worker.name,
        shape=worker.shape,
        started_at=worker.started_at,
        micro_usd_per_hour=micro_usd(binding.catalogue[worker.shape].usd_per_hour),
        source="catalogue",
    )
