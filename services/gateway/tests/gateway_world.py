"""A running gateway for tests: real NATS, real HTTP, and stand-ins for the services behind it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

import aiohttp
from cluster_stand_in import ClusterStandIn
from clusterra_contracts.bus.topology import REGISTRY
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, KEPT_EVENTS, tenant_key
from clusterra_gateway.app import gateway_on
from clusterra_gateway.settings import Settings
from clusterra_gateway.tables import TABLES
from clusterra_gateway.tenants.provisioning import Provisioning
from clusterra_gateway.tenants.specification import ProvisionFile
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry, delete_binding, put_binding
from clusterra_runtime.service import Service
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Delete
from clusterra_runtime.store.table_use import tables_of
from issuer_stand_in import IssuerStandIn
from operator_tokens import header
from yarl import URL

CATALOGUE = Catalogue(
    shapes=(Shape(name="compute-xs", family="compute", size="xs", vcpu=2, memory_gib=4, usd_per_hour=0.1),)
)


async def no_message(*_message: object) -> None:
    """Publishes nothing: for an outbox beside that of a gateway."""


class _Service(Service):
    def __init__(self, settings: Settings) -> None:
        super().__init__("gateway", settings)
        self.tasks: list[asyncio.Task[None]] = []

    def background(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        async def running() -> None:
            await run()

        task = asyncio.create_task(running(), name=name)
        self.tasks.append(task)
        return task

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def provisioned(
    tenant: str, *clusters: str, admins: tuple[str, ...] = (), storage: Mapping[str, object] | None = None
) -> dict[str, object]:
    """A tenant as in a provision file. Its people have addresses in `<tenant>.example`."""
    return {
        "id": tenant,
        "name": tenant.title(),
        "domains": [f"{tenant}.example"],
        "admins": list(admins),
        "clusters": [
            {
                "id": cluster,
                "name": f"{cluster} of {tenant}",
                "slurmrestd_url": "http://127.0.0.1:1",
                "jwt_key": "file:/none",
                "operator": SlurmUser(name="clusterra", uid=5000, gid=5000).model_dump(),
                "storage": storage,
            }
            for cluster in clusters
        ],
    }


async def apply_file(directory: Directory, *tenants: Mapping[str, object], registry: Registry | None = None) -> None:
    """Apply a provision file with these tenants."""
    given = ProvisionFile.model_validate({"tenants": tenants})
    await Provisioning(directory, CATALOGUE, registry or Registry()).apply(given)


@dataclass
class World:
    """A running gateway and everything around it. The tenants `acme` and `rival` have one cluster each."""

    url: str
    settings: Settings
    service: _Service
    issuer: IssuerStandIn
    store: MemoryStore
    client: Client
    registry: Registry
    acme: ClusterStandIn
    rival: ClusterStandIn
    opened: AsyncExitStack

    async def browser(self) -> aiohttp.ClientSession:
        """A new browser without cookies."""
        jar = aiohttp.CookieJar(unsafe=True)
        return await self.opened.enter_async_context(aiohttp.ClientSession(self.url, cookie_jar=jar))

    async def operator(self, name: str = "anna") -> aiohttp.ClientSession:
        """A program of this operator of the platform."""
        return await self.opened.enter_async_context(aiohttp.ClientSession(self.url, headers=header(name)))

    async def add_silent_cluster(self, name: str = "silent") -> None:
        """Give acme another cluster, for which no other service answers. The tests of a process share a NATS."""
        ref, binding = ClusterRef(tenant="acme", cluster=name), self.registry.get(self.acme.ref)
        assert binding is not None
        await put_binding(self.client, ref, binding)
        self.opened.push_async_callback(delete_binding, self.client, ref)
        boss = await self.login("boss@acme.example")

        async def served() -> bool:
            # The gateway follows the bindings by itself, and may see this one after the test's own registry.
            async with boss.get("/v1/clusters") as answer:
                return name in {each["id"] for each in (await answer.json())["clusters"]}

        await until(lambda: ref in self.registry.clusters, seconds=90, what=f"the cluster {name}")
        await until(served, seconds=90, what=f"the cluster {name} in the gateway", every=0.05)

    async def login(self, email: str, browser: aiohttp.ClientSession | None = None) -> aiohttp.ClientSession:
        """A browser in which this person has signed in."""
        browser = browser or await self.browser()
        async with browser.get(await authorized(browser, email), allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()
        return browser


async def authorized(
    browser: aiohttp.ClientSession, email: str = "ada@acme.example", begin: str = "/v1/auth/login"
) -> URL:
    """Signs this person in at the issuer. Returns the address to which it sends the browser back."""

    async def begun() -> str | None:
        async with browser.get(begin, allow_redirects=False) as answer:
            # The issuer has 10 s to answer, which it may miss on a busy machine. People are told to try again, too.
            if answer.status == 503:
                return None
            assert answer.status == 302, await answer.text()
            return answer.headers["Location"]

    authorize = f"{await until(begun, seconds=90, what='an answer of the issuer')}&login_hint={quote(email)}"
    async with browser.get(authorize, allow_redirects=False) as answer:
        return URL(answer.headers["Location"])


@asynccontextmanager
async def running(
    settings: Settings, issuer: IssuerStandIn, *, storage: Mapping[str, object] | None = None
) -> AsyncIterator[World]:
    """Starts everything. The gateway listens on `settings.http_port`. Both clusters have the same `storage`."""
    async with AsyncExitStack() as opened:
        store = await opened.enter_async_context(MemoryStore())
        await store.create_tables(*tables_of(TABLES))
        tenants = [
            provisioned("acme", "main", admins=("boss@acme.example",), storage=storage),
            provisioned("rival", "secret", admins=("chief@rival.example",), storage=storage),
        ]
        client = await bus.connect(settings, "stand-in")
        opened.push_async_callback(bus.close, client)
        acme = ClusterStandIn(ClusterRef(tenant="acme", cluster="main"))
        rival = ClusterStandIn(ClusterRef(tenant="rival", cluster="secret"))
        # The tests of a process share its NATS server: without this, they would find the clusters of others.
        await client.jetstream().purge_stream(f"KV_{REGISTRY.name}")
        async with Outbox(store, partial(bus.store, client)) as outbox:
            await apply_file(Directory(store, outbox), *tenants)
        for tenant in ("acme", "rival"):
            # It was made long ago: nobody tells it to the streams of the tests.
            for item in (await store.query(ACCOUNTS, tenant_key(tenant).pk, sort=KEPT_EVENTS)).items:
                await store.delete(Delete(ACCOUNTS, item.key))
        registry = Registry()
        await registry.start(client)
        opened.push_async_callback(registry.stop)
        for stand_in in (acme, rival):
            await stand_in.serve(client)
            opened.push_async_callback(stand_in.stop_serving)
        service = _Service(settings)
        await opened.enter_async_context(gateway_on(store, service, settings))
        opened.push_async_callback(service.stop)
        await until(lambda: not service.failing(), seconds=90, what="the gateway to be ready")
        url = f"http://127.0.0.1:{settings.http_port}"
        browsers = await opened.enter_async_context(AsyncExitStack())
        yield World(url, settings, service, issuer, store, client, registry, acme, rival, browsers)
