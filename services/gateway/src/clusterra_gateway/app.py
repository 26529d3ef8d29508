"""The gateway's process: opens its connections, starts its background tasks, serves its routes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.lease import Leases
from clusterra_runtime.nats.versions import announced
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.service import Service, run
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.record_level import RecordLevels
from clusterra_runtime.store.required_tables import RequiredTables
from clusterra_runtime.store.store import Store
from clusterra_runtime.store.table_use import tables_of

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.kept_events import KeptEvents
from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.bus.connection import GatewayBus, connected, followed_registry
from clusterra_gateway.bus.edge_connections import EdgeConnections
from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import EdgeRequests, LedgerRequests, SlurmRequests
from clusterra_gateway.bus.revocation_messages import RevocationMessages
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.refresh import DirectoryRefresh
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.http.server import serving
from clusterra_gateway.identity.issuers.choice import ServedIssuers
from clusterra_gateway.identity.issuers.given import given_issuers
from clusterra_gateway.identity.sessions import SessionKeys
from clusterra_gateway.money.budgets.sweep import BudgetSweep
from clusterra_gateway.money.quotas.sweep import WAKING, QuotaSweep
from clusterra_gateway.routes import SignIn, Submitting, gateway_routes
from clusterra_gateway.sessions.wiring import SessionServices
from clusterra_gateway.settings import Settings
from clusterra_gateway.staging.reconcile import StagingReconciler
from clusterra_gateway.staging.sweep import WAKING as STAGING_WAKING
from clusterra_gateway.staging.sweep import StagingSweep
from clusterra_gateway.tables import FORMS, TABLES
from clusterra_gateway.templates.launches import Preparations
from clusterra_gateway.templates.library import Library, load_catalogue
from clusterra_gateway.templates.records import TEMPLATES, TemplateRecords
from clusterra_gateway.templates.ticking import Ticking
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.removal import ClusterRemoval
from clusterra_gateway.tenants.sweep import DeletionSweep
from clusterra_gateway.tenants.tenant_removal import TenantRemoval
from clusterra_gateway.tenants.tenants import list_those_of_before
from clusterra_gateway.workflows.sweep import RunSweep

NAME = "gateway"


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """The gateway with its record in DynamoDB. `run` must be given the gateway's Settings."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - `main` gives no others
    async with DynamoDBStore(table_prefix=settings.table_prefix) as store, gateway_on(store, service, settings):
        yield


@asynccontextmanager
async def gateway_on(store: Store, service: Service, settings: Settings) -> AsyncIterator[int]:
    """The gateway with its record in `store`, until the block ends. Yields the port it listens on."""
    session_keys, given = SessionKeys.load(settings.session_key_file), given_issuers(settings)
    tables = RequiredTables(store, *tables_of(TABLES))
    service.ready_when(tables.UNREACHABLE, lambda: tables.reachable)
    service.ready_when(tables.MISSING, lambda: tables.exist)
    await tables.wait()
    levels = RecordLevels(store, FORMS)
    service.ready_when("records", lambda: levels.problem or True)
    await levels.wait()
    async with (
        aiohttp.ClientSession() as http,
        Secrets() as secrets,
        connected(settings, NAME) as client,
        announced(service, client),
        followed_registry(client) as registry,
        Outbox(store, partial(bus.store, client)) as outbox,
        Buckets(registry, secrets) as buckets,
    ):
        directory = Directory(store, outbox)
        projection = Projection(directory, client, registry)
        await projection.project()
        await list_those_of_before(directory)
        feed, edges, revocations = EventFeed(client), EdgeConnections(), RevocationMessages(client)
        heartbeats = await edges.follow(client, await directory.clusters())
        issuers = ServedIssuers(http, given, settings.redirect_uri)

        service.ready_when("nats", lambda: client.is_connected)
        service.ready_when("feed", lambda: feed.working)
        service.background("projection", projection.run)
        service.background("kept events", KeptEvents(store, client, registry).run)
        service.background("record levels", levels.watch)
        slurm, edge = SlurmRequests(client), EdgeRequests(client, settings.edge_timeout_seconds)
        gateway_bus = GatewayBus(client, registry, feed, edges, revocations)
        submitting = Submitting.on(settings, directory, gateway_bus, buckets)
        service.background("runs", RunSweep(submitting.runs, submitting.run_work).run)
        catalogue = await asyncio.to_thread(load_catalogue, settings.templates_dir)
        library = Library(catalogue, TemplateRecords(directory, registry))
        ticking = Ticking(directory, Preparations(library), slurm, submitting.run_starts, submitting.desk)
        service.background("schedules", Leases(client, NAME, 1, ticking.lead, instance=settings.instance).run)
        quotas = QuotaSweep(submitting.admission.reservations, slurm, LedgerRequests(client), registry)
        feed.observe(WAKING, quotas.on_event)
        service.background("quotas", quotas.run)
        service.background("budgets", BudgetSweep(directory, LedgerRequests(client), registry).run)
        bounds, stagings = submitting.bounds, submitting.stagings
        reconciler = StagingReconciler(stagings, directory, (slurm, edge), (buckets, bounds), settings.instance)
        staging = StagingSweep(stagings, reconciler)
        feed.observe(STAGING_WAKING, staging.on_event)
        service.background("staging", staging.run)
        deletions = Deletions(directory, registry)
        removal = ClusterRemoval(directory, client, registry, submitting.runs, settings.deletion_wait_seconds)
        sweep = DeletionSweep(store, removal, TenantRemoval(directory, deletions))
        service.background("deletions", sweep.run)
        service.background("identity maps", DirectoryRefresh(MapRecords(store), registry, secrets).run)
        service.background("outbox", lambda: outbox.relay(ACCOUNTS))
        service.background("templates outbox", lambda: outbox.relay(TEMPLATES))
        service.background("feed", feed.run)
        service.background("heartbeats", heartbeats.run)

        session_services = SessionServices(settings, session_keys, directory, gateway_bus)
        service.background("idle sessions", session_services.idle_cull().run)
        routes = gateway_routes(
            settings, SignIn(session_keys, issuers), directory, library, gateway_bus, secrets, submitting
        )
        await revocations.follow()
        async with (
            session_services.pages() as sessions_port,
            serving(
                routes,
                settings.http_host,
                settings.http_port,
                leaving=service.stopping,
                encrypted=settings.secure,
                origins=settings.consoles,
            ) as port,
        ):
            service.log.info("http_listening", host=settings.http_host, port=port, url=settings.public_url)
            service.log.info("sessions_listening", port=sessions_port, url=settings.sessions_url)
            yield port


def main() -> None:
    """Runs the service."""
    run(NAME, Settings(), app)
