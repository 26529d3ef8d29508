"""The scaler, wired together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_contracts import subjects
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.subjects import JOB_PARTITIONS
from clusterra_contracts.usage_rpc import ReadUsage
from clusterra_runtime import bus, rpc
from clusterra_runtime.broker import broker
from clusterra_runtime.dynamodb import DynamoDBStore
from clusterra_runtime.lease import Leases
from clusterra_runtime.outbox import Outbox
from clusterra_runtime.registry import Registry
from clusterra_runtime.service import Service, run
from clusterra_runtime.store import Store

from clusterra_scaler.fleets import FLEETS, Fleets
from clusterra_scaler.partitions import Partitions
from clusterra_scaler.settings import Settings
from clusterra_scaler.usage import Usages

NAME = "scaler"


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """The service on DynamoDB; the caller of `run` gives it its Settings."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - main gives no others
    async with DynamoDBStore(table_prefix=settings.table_prefix) as store, scaler_on(store, service):
        yield


@asynccontextmanager
async def scaler_on(store: Store, service: Service) -> AsyncIterator[None]:
    """The scaler with its record in `store`."""
    await store.create_tables(FLEETS)
    client = await bus.connect(service.settings, NAME)
    registry = Registry()
    try:
        await registry.start(client)
        consuming = broker(service.settings, NAME, client=client)
        await consuming.start()
        async with Outbox(store, lambda subject, body, headers: bus.store(client, subject, body, headers)) as outbox:
            partitions = Partitions(client, consuming, registry, Fleets(store, outbox))
            usages = Usages(registry)
            await usages.recall(client)
            await bus.subscribe(client, "heartbeat.*.*", Heartbeat, partitions.on_heartbeat)
            await bus.subscribe(client, "job.pending.*.*", QueueSnapshot, usages.on_snapshot)
            await rpc.serve(client, "usage.*", ReadUsage, usages.read, queue=NAME, parse=subjects.parse_usage)
            leases = Leases(
                client.jetstream(), NAME, JOB_PARTITIONS, partitions.hold, instance=service.settings.instance
            )
            service.ready_when("nats", lambda: client.is_connected)
            service.ready_when("snapshots", lambda: partitions.working)
            service.background("leases", leases.run)
            service.background("outbox", lambda: outbox.relay(FLEETS))
            try:
                yield
            finally:
                await consuming.stop()
    finally:
        await registry.stop()
        await bus.close(client)


def main() -> None:
    """Run the scaler until it is told to stop."""
    run(NAME, Settings(), app)
