"""The connection to NATS, the registry that is followed over it, and all that the gateway does over it.

`clusterra-admin` opens the first two as well.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.settings import ServiceSettings

from clusterra_gateway.bus.bus_login_requests import BusLoginRequests
from clusterra_gateway.bus.cluster_health import EdgeConnections
from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import (
    EdgeRequests,
    HistoryRequests,
    LedgerRequests,
    ScalerRequests,
    SlurmRequests,
)
from clusterra_gateway.bus.revocation_messages import RevocationMessages
from clusterra_gateway.bus.webhook_requests import WebhookRequests


@asynccontextmanager
async def connected(settings: ServiceSettings, name: str) -> AsyncIterator[Client]:
    """A connection to NATS until the block ends."""
    client = await bus.connect(settings, name)
    try:
        yield client
    finally:
        await bus.close(client)


@asynccontextmanager
async def followed_registry(client: Client) -> AsyncIterator[Registry]:
    """The registry, kept up to date until the block ends."""
    registry = Registry()
    await registry.start(client)
    try:
        yield registry
    finally:
        await registry.stop()


@dataclass(frozen=True)
class GatewayBus:
    """The connection, what follows NATS over it, and the requests to other services. Only wiring uses it as a whole."""

    client: Client
    registry: Registry
    feed: EventFeed
    edges: EdgeConnections
    revocations: RevocationMessages
    slurm: SlurmRequests
    edge: EdgeRequests
    scaler: ScalerRequests
    archive: HistoryRequests
    ledger: LedgerRequests
    webhooks: WebhookRequests
    logins: BusLoginRequests

    @classmethod
    def over(cls, client: Client, registry: Registry, *, edge_timeout_seconds: float) -> "GatewayBus":
        """All of it over one connection. Nothing is sent yet."""
        return cls(
            client,
            registry,
            EventFeed(client),
            EdgeConnections(),
            RevocationMessages(client),
            SlurmRequests(client),
            EdgeRequests(client, edge_timeout_seconds),
            ScalerRequests(client),
            HistoryRequests(client),
            LedgerRequests(client),
            WebhookRequests(client),
            BusLoginRequests(client),
        )
