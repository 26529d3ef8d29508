"""The gateway's process: opens its connections, builds the shared parts, and runs and serves what the rooms offer.

`clusterra-gateway serve` serves the API, `clusterra-gateway work` runs the background work, and without an argument one
process does both.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import aiohttp
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.versions import announced
from clusterra_runtime.outbound import Outbound
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.service import Service, run
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.record_level import RecordLevels
from clusterra_runtime.store.required_tables import RequiredTables
from clusterra_runtime.store.store import Store
from clusterra_runtime.store.table_use import tables_of

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import FORMS
from clusterra_gateway.bus.connection import GatewayBus, connected, followed_registry
from clusterra_gateway.connections import Connections
from clusterra_gateway.console.site import load_site
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.http.server.server import serving
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.identity.issuers.choice import ServedIssuers
from clusterra_gateway.identity.issuers.configuration import configured_issuers
from clusterra_gateway.parts import Installed, SignIn, build_parts
from clusterra_gateway.room import Room
from clusterra_gateway.rooms import rooms
from clusterra_gateway.settings import Settings
from clusterra_gateway.tables import TABLES
from clusterra_gateway.templates.library import load_catalogue
from clusterra_gateway.tenants.tenants import list_tenants_of_clusters

NAME = "gateway"


@dataclass(frozen=True)
class Duties:
    """What a process of the gateway does."""

    serves: bool = True
    """Whether it serves the API and the pages of sessions."""
    works: bool = True
    """Whether it runs the background work of the rooms."""


BOTH = Duties()
COMMANDS = {"serve": Duties(works=False), "work": Duties(serves=False)}


@asynccontextmanager
async def app(service: Service, duties: Duties) -> AsyncIterator[None]:
    """The gateway with its record in DynamoDB. `run` must be given the gateway's Settings."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - `main` gives no others
    async with (
        DynamoDBStore(table_prefix=settings.table_prefix) as store,
        gateway_on(store, service, settings, duties),
    ):
        yield


@asynccontextmanager
async def gateway_on(store: Store, service: Service, settings: Settings, duties: Duties = BOTH) -> AsyncIterator[int]:
    """The gateway with its record in `store`, until the block ends.

    Yields the port it listens on; 0 where it serves nothing.
    """
    signing_keys, given = SigningKeys.load(settings.session_key_file), configured_issuers(settings)
    site = await asyncio.to_thread(load_site, settings.console_dir) if duties.serves else None
    tables = RequiredTables(store, *tables_of(TABLES))
    service.ready_when(tables.UNREACHABLE, lambda: tables.reachable)
    service.ready_when(tables.MISSING, lambda: tables.exist)
    await tables.wait()
    levels = RecordLevels(store, FORMS)
    service.ready_when("records", lambda: levels.problem or True)
    await levels.wait()
    outbound = Outbound(settings.outbound_allowed)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=outbound.socket_of)) as http,
        Secrets(folders=settings.secret_folders) as secrets,
        connected(settings, NAME) as client,
        announced(service, client),
        followed_registry(client) as registry,
        Outbox(store, partial(bus.store, client)) as outbox,
        Buckets(registry, secrets, outbound) as buckets,
    ):
        gateway_bus = GatewayBus.over(client, registry, edge_timeout_seconds=settings.edge_timeout_seconds)
        directory = Directory(store, outbox)
        sign_in = SignIn(signing_keys, ServedIssuers(http, given, settings.redirect_uri))
        catalogue = await asyncio.to_thread(load_catalogue, settings.templates_dir)
        connections = Connections(settings, directory, gateway_bus, secrets)
        parts = build_parts(connections, sign_in, buckets, Installed(catalogue, site))
        await parts.projection.project()
        await list_tenants_of_clusters(directory)

        service.ready_when("nats", lambda: client.is_connected)
        service.ready_when("feed", lambda: gateway_bus.feed.working)
        service.background("record levels", levels.watch)
        offered = rooms(parts)
        if duties.works:
            _work(offered, service, gateway_bus)
        if not duties.serves:
            service.background("feed", gateway_bus.feed.run)
            yield 0
            return
        heartbeats = await gateway_bus.edges.follow(client, registry, await directory.clusters())
        service.background("heartbeats", heartbeats.run)
        service.background("uses of tokens", parts.identity.uses.sweeper().run)
        for room in offered:
            for observed in room.observers:
                gateway_bus.feed.observe(observed.kinds, observed.observer)
            for observer in room.revocation_observers:
                gateway_bus.revocations.observe(observer)
        service.background("feed", gateway_bus.feed.run)
        await gateway_bus.revocations.follow()
        async with _served(offered, service, settings) as port:
            yield port


def _work(offered: Sequence[Room], service: Service, gateway_bus: GatewayBus) -> None:
    """Starts the background work of all rooms, and lets events wake it."""
    for room in offered:
        for observed in room.background_observers:
            gateway_bus.feed.observe(observed.kinds, observed.observer)
        for name, task in room.background.items():
            service.background(name, task)


@asynccontextmanager
async def _served(offered: Sequence[Room], service: Service, settings: Settings) -> AsyncIterator[int]:
    """Serves the routes of all rooms, and the rooms' own servers, until the block ends. Yields the API's port."""
    async with AsyncExitStack() as servers:
        for room in offered:
            if room.server is not None:
                await servers.enter_async_context(room.server())
        port = await servers.enter_async_context(
            serving(
                [route for room in offered for route in room.routes],
                settings.http_host,
                settings.http_port,
                leaving=service.stopping,
                encrypted=settings.secure,
                origins=settings.consoles,
            )
        )
        service.log.info("http_listening", host=settings.http_host, port=port, url=settings.public_url)
        yield port


def main() -> None:
    """Runs the service."""
    parser = argparse.ArgumentParser(prog="clusterra-gateway", description="The gateway; its settings are variables.")
    parser.add_argument(
        "duty", nargs="?", choices=COMMANDS, help="serve: the API only; work: the background work only; default: both"
    )
    duties = COMMANDS.get(parser.parse_args().duty, BOTH)
    run(NAME, Settings(), partial(app, duties=duties))
