"""The gateway: all wiring."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.service import Service, run
from clusterra_runtime.settings import ServiceSettings
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Store

from clusterra_gateway.accounts.directory import ACCOUNTS, Directory
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.agents.exchange import AgentExchange
from clusterra_gateway.agents.keys import AgentKeys
from clusterra_gateway.bus.connections import Connections
from clusterra_gateway.bus.feed import Feed
from clusterra_gateway.bus.upstream import Upstream
from clusterra_gateway.context import Gateway
from clusterra_gateway.http.server import serving
from clusterra_gateway.identity.authentication import Authentication
from clusterra_gateway.identity.enrolment import Joining
from clusterra_gateway.identity.oidc import Issuer
from clusterra_gateway.identity.sessions import SessionKeys
from clusterra_gateway.jobs.idempotency import IDEMPOTENCY, IdempotencyKeys
from clusterra_gateway.settings import Settings

NAME = "gateway"


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """The service on DynamoDB; the caller of `run` gives it its Settings."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - `main` gives no others
    async with DynamoDBStore(table_prefix=settings.table_prefix) as store, gateway_on(store, service, settings):
        yield


@asynccontextmanager
async def gateway_on(store: Store, service: Service, settings: Settings) -> AsyncIterator[int]:
    """The gateway with its record in `store`; gives the port it listens on."""
    keys = SessionKeys.load(settings.session_key_file)
    await store.create_tables(ACCOUNTS, IDEMPOTENCY)
    async with (
        aiohttp.ClientSession() as http,
        connected(settings, NAME) as client,
        followed_registry(client) as registry,
        Outbox(store, partial(bus.store, client)) as outbox,
    ):
        directory, connections = Directory(store, outbox), Connections()
        projection = Projection(directory, client, registry)
        await projection.once()
        await bus.subscribe(client, "heartbeat.*.*", Heartbeat, connections.on_heartbeat)
        for ref in await directory.clusters():
            await connections.recall(client, ref)
        secret = settings.oidc_client_secret()
        parts = Gateway(
            settings=settings,
            directory=directory,
            registry=registry,
            issuer=Issuer(http, settings.oidc_issuer, settings.oidc_client_id, secret, settings.redirect_uri),
            joining=Joining(directory, registry),
            session_keys=keys,
            authentication=Authentication(directory, keys, settings.origin),
            idempotency=IdempotencyKeys(store),
            upstream=Upstream(
                client, slurm_seconds=settings.slurm_timeout_seconds, edge_seconds=settings.edge_timeout_seconds
            ),
            connections=connections,
            feed=Feed(client),
            agent_keys=AgentKeys(directory),
            agent_exchange=AgentExchange(client, registry),
        )
        service.ready_when("nats", lambda: client.is_connected)
        service.ready_when("feed", lambda: parts.feed.working)
        service.background("projection", projection.run)
        service.background("outbox", lambda: outbox.relay(ACCOUNTS))
        service.background("feed", parts.feed.run)
        async with serving(parts) as port:
            service.log.info("http_listening", host=settings.http_host, port=port, url=settings.public_url)
            yield port


@asynccontextmanager
async def connected(settings: ServiceSettings, name: str) -> AsyncIterator[Client]:
    """A connection to NATS for as long as the block lasts."""
    client = await bus.connect(settings, name)
    try:
        yield client
    finally:
        await bus.close(client)


@asynccontextmanager
async def followed_registry(client: Client) -> AsyncIterator[Registry]:
    """The registry, kept up to date for as long as the block lasts."""
    registry = Registry()
    await registry.start(client)
    try:
        yield registry
    finally:
        await registry.stop()


def main() -> None:
    """Run the service."""
    run(NAME, Settings(), app)
