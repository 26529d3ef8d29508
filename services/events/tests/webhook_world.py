"""Webhooks on a real NATS server, with a store in memory and receivers on loopback."""

import base64
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any

from aiohttp import web
from clusterra_contracts.bus import subjects
from clusterra_contracts.events import Event, NodeFact
from clusterra_contracts.identity import ClusterRef, SlurmUser, TenantRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.webhooks import DeliveryPage, ReadDeliveries
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_contracts.webhooks import DeliverFrom, Webhook, WebhookSecret
from clusterra_events.webhooks.formats import FormatSender
from clusterra_events.webhooks.service import Webhooks
from clusterra_events.webhooks.state_table import DELIVERIES
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.nats.registry import Registry, put_binding
from clusterra_runtime.service import Service
from clusterra_runtime.settings import ServiceSettings
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Delete, Put, Store
from clusterra_runtime.store.webhook_records import WEBHOOKS, attributes_of, webhook_key

REF = ClusterRef(tenant="acme", cluster="main")
TENANT = TenantRef(tenant="acme")
LOOPBACK = (ip_network("127.0.0.0/8"),)
SHAPE = Shape(name="compute-xs", family="compute", size="xs", vcpu=2, memory_gib=4, usd_per_hour=1.0)
BINDING = ClusterBinding(
    name="main",
    slurmrestd_url="http://127.0.0.1:1",
    jwt_key="file:/none",
    operator=SlurmUser(name="clusterra", uid=5000, gid=5000),
    catalogue=Catalogue(shapes=(SHAPE,)),
)
GUARD_SECONDS = 90.0


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def deliver_from(time: datetime | None = None) -> DeliverFrom:
    return DeliverFrom(id=secrets.token_hex(8), time=time or now() - timedelta(seconds=1))


def webhook_at(url: str, **changes: Any) -> Webhook:
    given: dict[str, Any] = {
        "id": f"wh_{secrets.token_hex(8)}",
        "name": "test",
        "url": url,
        "secrets": (WebhookSecret(text=new_secret()),),
        "deliver_from": deliver_from(),
        "created_by": "ada",
        "created_at": now(),
    }
    return Webhook(**{**given, **changes})


@dataclass(frozen=True)
class Taken:
    """A request that a receiver got."""

    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def message(self) -> str:
        return self.headers["webhook-id"]

    @property
    def node(self) -> str:
        """The node that the event is about; empty for an event about something else."""
        data = Event.model_validate_json(self.body).data
        return data.node if isinstance(data, NodeFact) else ""


type Outcome = web.StreamResponse | int | None
type Answer = Callable[[int], Outcome | Awaitable[Outcome]]
"""What is answered to the request with a number: a response, a status, or None: the connection is closed."""


@dataclass
class Receiver:
    url: str = ""
    taken: list[Taken] = field(default_factory=list)
    """In the order of their ends."""
    begun: int = 0

    def nodes(self) -> list[str]:
        """The nodes of the events that were taken successfully."""
        return [each.node for each in self.taken if each.node and 200 <= each.status < 300]

    async def has(self, count: int) -> None:
        await until(lambda: len(self.nodes()) >= count, seconds=GUARD_SECONDS, what=f"{count} deliveries")

    async def was_asked(self, times: int) -> None:
        await until(lambda: self.begun >= times, seconds=GUARD_SECONDS, what=f"{times} requests")


@asynccontextmanager
async def receiver(answer: Answer | Mapping[str, int] = lambda _: 200) -> AsyncIterator[Receiver]:
    """An HTTP server on loopback that takes any request. A mapping says the status by the node of an event."""
    found = Receiver()

    async def handle(request: web.Request) -> web.StreamResponse:
        number, found.begun = found.begun, found.begun + 1
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        outcome = answer[Taken(headers, body, 0).node] if isinstance(answer, Mapping) else answer(number)
        if isinstance(outcome, Awaitable):
            outcome = await outcome
        response = web.Response(status=outcome) if isinstance(outcome, int) else outcome
        found.taken.append(Taken(headers, body, 0 if response is None else response.status))
        if response is None:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return response

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        yield found
    finally:
        await runner.cleanup()


@dataclass
class World:
    """A tenant with a cluster, and its webhooks."""

    client: Client
    store: Store
    registry: Registry

    async def put(self, webhook: Webhook) -> None:
        """Write a webhook and tell it, as the gateway does."""
        key = webhook_key(REF.tenant, webhook.id)
        item = await self.store.get(WEBHOOKS, key)
        condition = Absent() if item is None else VersionIs(item.version)
        await self.store.write(Put(WEBHOOKS, key, attributes_of(webhook), condition))
        await self._tell("webhook.changed")

    async def delete(self, webhook: Webhook) -> None:
        await self.store.delete(Delete(WEBHOOKS, webhook_key(REF.tenant, webhook.id)))
        await self._tell("webhook.deleted")

    async def _tell(self, kind: str) -> None:
        # Only the subject counts: what is no event is sent to nobody.
        await self.client.publish(subjects.event(REF, kind), b"{}")

    async def publish(self, nodes: Iterable[int | str]) -> None:
        """Publish an event about each of these nodes."""
        publisher = EventPublisher(self.client, "proxy")
        for node in nodes:
            fact = NodeFact(kind="node.down", node=f"n{node}")
            await publisher.publish(REF, fact, version=secrets.token_hex(4), time=now())

    @asynccontextmanager
    async def delivering(
        self, sender: FormatSender | None = None, client: Client | None = None
    ) -> AsyncIterator[Webhooks]:
        """The room of webhooks as a replica of the service runs it, with the rights of `client`."""
        service = Service("events", ServiceSettings())
        async with sender or FormatSender(LOOPBACK) as open_sender:
            webhooks = Webhooks(self.store, client or self.client, self.registry, open_sender)
            subscriptions = await webhooks.serve(service)
            try:
                yield webhooks
            finally:
                await service._cancel_background()
                for each in subscriptions:
                    await each.unsubscribe()

    async def logged(self, webhooks: Webhooks, webhook: Webhook, count: int) -> DeliveryPage:
        """The delivery log once it has so many entries: one is written after the receiver has answered."""

        async def written() -> DeliveryPage | None:
            page = await self.page(webhooks, webhook, limit=200)
            done = sum(each.last.delivered for each in page.deliveries)
            return page if done >= count else None

        return await until(written, seconds=GUARD_SECONDS, what=f"{count} entries of the delivery log")

    async def page(self, webhooks: Webhooks, webhook: Webhook, **request: Any) -> DeliveryPage:
        return await webhooks.requests.read(TENANT, ReadDeliveries(webhook_id=webhook.id, **request))


@asynccontextmanager
async def world(nats: NatsServer, store: Store | None = None, user: str | None = None) -> AsyncIterator[World]:
    client = await bus.connect(nats.settings(user), "events")
    registry = Registry()
    try:
        async with MemoryStore() as memory:
            used = store or memory
            await used.create_tables(WEBHOOKS, DELIVERIES)
            await put_binding(client, REF, BINDING)
            await registry.start(client)
            yield World(client, used, registry)
    finally:
        await registry.stop()
        await bus.close(client)
