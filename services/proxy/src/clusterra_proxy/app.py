"""Wires the proxy together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_contracts.bus.subjects import SHARD_COUNT
from clusterra_runtime.interpreter import collect_seldom, collect_young
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.lease_thread import LeaseThread
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.versions import announced
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.service import Service, run

from clusterra_proxy.clusters import Clusters
from clusterra_proxy.settings import Settings
from clusterra_proxy.shards import Shards


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """Run everything that lives as long as the process."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - given by main
    client = await bus.connect(settings, service.name)
    service.ready_when("connected to NATS", lambda: client.is_connected)
    registry = Registry()
    try:
        async with announced(service, client), Secrets(folders=settings.secret_folders) as secrets:
            await registry.start(client)
            shards = Shards()
            # A burst of answers from Slurm may hold the event loop for seconds.
            division = f"clusters/{SHARD_COUNT}"
            leases = LeaseThread(settings, service.name, SHARD_COUNT, shards.lead, division=division)
            service.background("leases", leases.run)
            service.background("garbage collection", collect_young)
            Clusters(service, client, settings, shards, secrets).follow(registry)
            yield
    finally:
        await registry.stop()
        await bus.close(client)


def main() -> None:
    """Run the proxy until it is stopped."""
    collect_seldom()
    run("proxy", Settings(), app)
