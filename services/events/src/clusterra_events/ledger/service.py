"""Wires the parts of the ledger together."""

import asyncio

import structlog
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.rpc.costs import ReadCosts, ReadJobCost, ReadJobCosts, ReadRunCosts, ReadSpending
from clusterra_contracts.rpc.usage import ReadUsage
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.heartbeats import HeartbeatReader
from clusterra_runtime.service import Service
from clusterra_runtime.store.store import Store, StoreUnavailable

from clusterra_events.ledger.journal import Journal
from clusterra_events.ledger.presence import Presence
from clusterra_events.ledger.prices import PriceTeller
from clusterra_events.ledger.reports import Reports
from clusterra_events.ledger.spending import SpendingReader
from clusterra_events.ledger.statements import Statements
from clusterra_events.ledger.usage import UsageReader

log = structlog.get_logger(__name__)

QUEUE = "ledger"
"""Replicas share the requests."""
SETTLE_EVERY_SECONDS = 60.0


class Ledger:
    """The room's parts. Each replica takes facts, answers requests and writes the lines of workers that have ended."""

    def __init__(self, store: Store, client: Client, registry: Registry, *, retention_seconds: float) -> None:
        self.journal = Journal(store, retention_seconds=retention_seconds)
        self._presence = Presence()
        self._statements = Statements(store, self.journal, retention_seconds=retention_seconds, presence=self._presence)
        self._client = client
        self._registry = registry

    async def serve(self, service: Service) -> None:
        """Answer requests and start the work in the background."""
        reports = Reports(self.journal, self._statements)
        spending = SpendingReader(self._statements)
        usage = UsageReader(spending, self._registry.clusters)
        await rpc.serve(self._client, "ledger.*.*.costs", ReadCosts, reports.costs, queue=QUEUE)
        await rpc.serve(self._client, "ledger.*.*.job", ReadJobCost, reports.job, queue=QUEUE)
        await rpc.serve(self._client, "ledger.*.*.runs", ReadRunCosts, reports.runs, queue=QUEUE)
        await rpc.serve(self._client, "ledger.*.*.jobs", ReadJobCosts, reports.jobs, queue=QUEUE)
        await rpc.serve(self._client, "ledger.*.*.spending", ReadSpending, spending.read, queue=QUEUE)
        await rpc.serve_tenant(self._client, "usage.*", ReadUsage, usage.read, queue=QUEUE)
        prices = PriceTeller(EventPublisher(self._client, service.name), self._registry.clusters)

        def on_heartbeat(subject: Subject, heartbeat: Heartbeat) -> None:
            self._presence.on_heartbeat(subject, heartbeat)
            prices.on_heartbeat(subject, heartbeat)

        heartbeats = HeartbeatReader(self._client, on_heartbeat, self._registry.max_heartbeat_bytes)
        service.background("heartbeats", heartbeats.run)
        service.background("prices", prices.run)
        service.background("settling", self._settle)

    async def _settle(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_EVERY_SECONDS)
            for ref in tuple(self._registry.clusters):
                try:
                    await self._statements.settle(ref)
                except StoreUnavailable as error:
                    log.warning("ledger_not_settled", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
