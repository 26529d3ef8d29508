"""The connection to NATS, and the registry that is followed over it. `clusterra-admin` opens them, too."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.settings import ServiceSettings


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
