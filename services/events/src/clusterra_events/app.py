"""The events service: a durable consumer writes events to the archive, and a request subject reads them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from clusterra_contracts.bus.envelope import decode, decode_foreign
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import CONSUMERS, EVENTS_ARCHIVE, EVENTS_EDGE, EVENTS_LEDGER
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.rpc.forget import Forget, Forgotten
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory, ReadTenantHistory
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.broker import broker, durable
from clusterra_runtime.nats.client import BusUnavailable
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.use import watch_streams
from clusterra_runtime.nats.versions import announced
from clusterra_runtime.service import Service, run
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.required_tables import RequiredTables
from clusterra_runtime.store.store import StoreUnavailable
from clusterra_runtime.store.table_use import tables_of

from clusterra_events.archive import Archive, complete_to
from clusterra_events.archive_table import ARCHIVE
from clusterra_events.archive_views import FORM, POSITION_FORM
from clusterra_events.edge_events import MAX_DECODED_BYTES, EdgeEvents
from clusterra_events.following import Following
from clusterra_events.ledger.forgetting import Forgetting
from clusterra_events.ledger.service import Ledger
from clusterra_events.mails.configured import mail_sender
from clusterra_events.mails.service import Mails, forget_mails
from clusterra_events.progress import ArchiveProgress
from clusterra_events.settings import Settings
from clusterra_events.tables import TABLES
from clusterra_events.webhooks.formats import FormatSender
from clusterra_events.webhooks.service import Webhooks
from clusterra_events.whole_views import WholeViews

NAME = "events"
QUEUE = "events"
"""Replicas share the requests."""

_CONSUMERS = {consumer.name: consumer for consumer in CONSUMERS}


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """Wires the service; `service.settings` must be this service's Settings."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - main and the tests give no other settings
    async with (
        DynamoDBStore(table_prefix=settings.table_prefix) as store,
        FormatSender(settings.webhook_networks) as sender,
    ):
        tables = RequiredTables(store, *tables_of(TABLES))
        service.ready_when(tables.UNREACHABLE, lambda: tables.reachable)
        service.ready_when(tables.MISSING, lambda: tables.exist)
        await tables.wait()
        ledger_records = Forgetting(store, retention_seconds=settings.ledger_retention_seconds)

        async def forget(subject: Subject, request: Forget) -> Forgotten:
            removed = await ledger_records.forget(subject.ref, request.most)
            if removed < request.most:
                removed += await archive.forget(subject.ref, request.most - removed)
            if removed < request.most and all(ref.tenant != subject.ref.tenant for ref in registry.clusters):
                removed += await webhooks.forgetting.forget_tenant(subject.ref.tenant, request.most - removed)
                if removed < request.most:
                    removed += await forget_mails(store, subject.ref.tenant, request.most - removed)
            return Forgotten(removed=removed)

        client = await bus.connect(settings, NAME)
        registry = Registry()
        mailing = mail_sender(settings, client)
        mails = None if mailing is None else Mails(store, client, registry, mailing)
        webhooks = Webhooks(store, client, registry, sender, () if mails is None else (mails.sweep,))
        views = WholeViews(store, ARCHIVE, client, NAME)
        positions = WholeViews(store, ARCHIVE, client, NAME, form=POSITION_FORM)
        following = Following(store, ARCHIVE, settings.event_retention, lambda: positions.whole)
        archive = Archive(
            store,
            ARCHIVE,
            retention=settings.event_retention,
            whole_from=lambda: views.whole_from,
        )
        try:
            service.ready_when("nats", lambda: client.is_connected)
            progress = ArchiveProgress(client)

            async def read_all(refs: Sequence[ClusterRef], request: ReadHistory) -> HistoryPage:
                if request.follows is not None:
                    return await following.read(refs, request, await progress.come_to())
                position = complete_to(request)
                bound = None if position is None else await progress.reach(position)
                return await archive.read_all(refs, request, bound)

            async def read(subject: Subject, request: ReadHistory) -> HistoryPage:
                return await read_all((subject.ref,), request)

            async def read_tenant(tenant: TenantRef, request: ReadTenantHistory) -> HistoryPage:
                refs = {ClusterRef(tenant=tenant.tenant, cluster=each) for each in request.clusters}
                return await read_all(sorted(refs, key=lambda ref: ref.key), request.read)

            async with announced(service, client, record_form=FORM):
                service.background("views", views.run)
                service.background("views by position", positions.run)
                await rpc.serve(client, "history.*.*", ReadHistory, read, queue=QUEUE)
                await rpc.serve_tenant(client, "tenant-history.*", ReadTenantHistory, read_tenant, queue=QUEUE)
                await rpc.serve(client, "forget.*.*.events", Forget, forget, queue=QUEUE)
                consuming = broker(settings, NAME, client=client)
                archiving = durable(
                    consuming,
                    _CONSUMERS[EVENTS_ARCHIVE],
                    partial(decode, Event),
                    archive.keep,
                    batch_size=settings.archive_batch_size,
                    outages=(StoreUnavailable,),
                )
                # One after the other: they stay in their order.
                taking = durable(
                    consuming,
                    _CONSUMERS[EVENTS_EDGE],
                    partial(decode_foreign, Event, max_bytes=MAX_DECODED_BYTES),
                    EdgeEvents(client).take,
                    batch_size=1,
                    outages=(BusUnavailable,),
                )
                await registry.start(client)
                ledger = Ledger(store, client, registry, retention_seconds=settings.ledger_retention_seconds)
                await ledger.serve(service)
                await webhooks.serve(service)
                if mails is not None:
                    await mails.serve(service)
                booking = durable(
                    consuming,
                    _CONSUMERS[EVENTS_LEDGER],
                    partial(decode, Event),
                    ledger.journal.take,
                    batch_size=settings.archive_batch_size,
                    outages=(StoreUnavailable,),
                )
                service.background("stream use", lambda: watch_streams(client))
                service.ready_when("archive", lambda: archiving.working)
                service.ready_when("ledger", lambda: booking.working)
                await consuming.start()
                await archiving.start()
                await booking.start()
                await taking.start()
                try:
                    yield
                finally:
                    await taking.stop()
                    await booking.stop()
                    await archiving.stop()
                    await consuming.stop()
        finally:
            await registry.stop()
            await bus.close(client)


def main() -> None:
    """Run the service."""
    run(NAME, Settings(), app)
