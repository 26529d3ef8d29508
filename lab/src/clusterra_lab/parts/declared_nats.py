"""NATS as the services find it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_runtime.nats import bus, topology

from clusterra_lab.parts.nats import NatsServer, nats_server


@asynccontextmanager
async def declared_nats(directory: Path) -> AsyncIterator[NatsServer]:
    """A server where everybody may do everything, with the declared topology; see `nats_server`."""
    async with nats_server(directory) as server:
        client = await bus.connect(server.settings(), "topology")
        await topology.apply(client)
        await bus.close(client)
        yield server
