"""The gateway's connection to NATS, and what it follows there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.settings import ServiceSettings

from clusterra_gateway.bus.edge_connections import EdgeConnections
from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.revocation_messages import RevocationMessages


@dataclass(frozen=True)
class GatewayBus:
    """The connection, and what follows NATS over it. Only the wiring in the root uses it as a whole."""

    client: Client
    registry: Registry
    feed: EventFeed
    edges: EdgeConnections
    revocations: RevocationMessages


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
