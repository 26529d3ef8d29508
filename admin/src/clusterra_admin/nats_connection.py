"""The connection to NATS of a command: where a service waits for NATS without limit, a command ends and says why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.settings import ServiceSettings

CONNECT_SECONDS = 10.0
SERVICE = "admin"


class NatsUnreachable(RuntimeError):
    """There is no connection to NATS. The text has the last objection, and holds no secret."""

    hint = "check CLUSTERRA_NATS_URL, the credentials and the network: `clusterra-admin doctor` says more"


@asynccontextmanager
async def connected(settings: ServiceSettings, name: str = SERVICE) -> AsyncIterator[Client]:
    """Yields a connection until the block ends. Raises NatsUnreachable after CONNECT_SECONDS."""
    client = Client()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.open(settings, name, f"_INBOX_{name}")
    except TimeoutError:
        objection = client.last_error
        why = f": {objection}" if objection is not None and str(objection) else ""
        raise NatsUnreachable(f"{settings.nats_url} did not answer within {CONNECT_SECONDS:g} s{why}") from None
    try:
        yield client
    finally:
        await bus.close(client)
