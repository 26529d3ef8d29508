"""Publishers of events: each event is sent again, with the same id, until the bus has stored it."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from clusterra_contracts.events import NodeFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.events import EventPublisher

KINDS = ("node.registered", "node.drained", "node.undrained", "node.down")
"""Several, because the stream holds 100,000 events of each kind of a cluster."""


@dataclass
class Publishers:
    """Publish one event about each of many nodes, at a rate that all of them share."""

    ref: ClusterRef
    clients: list[Client]
    rate: float
    """Events in a second."""
    published: list[str] = field(default_factory=list)
    """The nodes of the stored events."""
    sent_again: int = 0

    async def publish(self, count: int) -> None:
        """Publish so many events."""
        numbers, began = itertools.count(), asyncio.get_running_loop().time()

        async def one(client: Client) -> None:
            publisher = EventPublisher(client, "proxy")
            while (number := next(numbers)) < count:
                await asyncio.sleep(began + number / self.rate - asyncio.get_running_loop().time())
                await self._store(publisher, number)

        async with asyncio.TaskGroup() as tasks:
            for client in self.clients:
                tasks.create_task(one(client))

    async def _store(self, publisher: EventPublisher, number: int) -> None:
        node, at = f"n{number}", now()
        fact = NodeFact(kind=KINDS[number % len(KINDS)], node=node)
        while True:
            try:
                await publisher.publish(self.ref, fact, version="1", time=at)
            except BusUnavailable:
                self.sent_again += 1
                continue
            self.published.append(node)
            return


@asynccontextmanager
async def publishers(nats: NatsServer, ref: ClusterRef, count: int, rate: float) -> AsyncIterator[Publishers]:
    """So many publishers, each with its own connection, until the block ends."""
    async with AsyncExitStack() as stack:
        clients = list[Client]()
        for number in range(count):
            clients.append(await bus.connect(nats.settings("lab"), f"publisher-{number}"))
            stack.push_async_callback(bus.close, clients[-1])
        yield Publishers(ref, clients, rate)
