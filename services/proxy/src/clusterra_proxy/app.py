"""Wires the proxy together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_contracts.bus.subjects import JOB_PARTITIONS
from clusterra_runtime.garbage_collection import collect_seldom
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.lease_thread import LeaseThread
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.versions import announced
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.service import Service, run

from clusterra_proxy.clusters import Clusters
from clusterra_proxy.partitions import Partitions
from clusterra_proxy.settings import Settings


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """Run everything that lives as long as the process."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - given by main
    client = await bus.connect(settings, service.name)
    service.ready_when("connected to NATS", lambda: client.is_connected)
    registry = Registry()
    try:
        async with announced(service, client), Secrets() as secrets:
            await registry.start(client)
            partitions = Partitions()
            # A burst of answers from Slurm may hold the event loop for seconds.
            division = f"clusters/{JOB_PARTITIONS}"
            leases = LeaseThread(settings, service.name, JOB_PARTITIONS, partitions.lead, division=division)
            service.background("leases", leases.run)
            Clusters(service, client, settings, partitions, secrets).follow(registry)
            yield
    finally:
        await registry.stop()
        await bus.close(client)


def main() -> None:
    """Run the proxy until it is stopped."""
    collect_seldom()
    run("proxy", Settings(), app)
