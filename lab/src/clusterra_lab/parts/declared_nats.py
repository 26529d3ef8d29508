"""A NATS server with the declared topology, as the services expect it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_runtime.nats import bus, topology

from clusterra_lab.parts.nats import NatsServer, nats_server


@asynccontextmanager
async def declared_nats(directory: Path) -> AsyncIterator[NatsServer]:
    """Run a server with the declared topology and without users, so that every client may do everything."""
    async with nats_server(directory) as server:
        client = await bus.connect(server.settings(), "topology")
        await topology.apply(client)
        await bus.close(client)
        yield server
