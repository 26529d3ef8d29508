"""A NATS server with readers of events, whose faults a test chooses, and the operators' commands for dead letters."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from admin_command import Answer, admin
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import CONSUMERS, DLQ, EVENTS_ARCHIVE
from clusterra_contracts.events import Event, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.broker import broker, durable
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, replay

MAIN = ClusterRef(tenant="acme", cluster="main")
ARCHIVE = next(each for each in CONSUMERS if each.name == EVENTS_ARCHIVE)
SUBJECT = subjects.event(MAIN, "node.down")


class Installation:
    """The client of a service, and the commands of an operator."""

    def __init__(self, server: NatsServer, client: Client) -> None:
        self._server = server
        self._buried = 0
        self.environment = server.environment()
        self.client = client
        self.broken = True
        """Whether the reader of events cannot read them."""
        self.handled: list[str] = []
        """The ids of the events that were handled."""

    async def run(self, *arguments: str, code: int = 0) -> Answer:
        """Run `clusterra-admin dead-letters`."""
        return await admin("dead-letters", *arguments, environment=self.environment, code=code)

    async def letters(self) -> list[Stored]:
        """What the stream DLQ has, oldest first."""
        return [each async for each in replay(self.client, DLQ.name, ">")]

    async def wait_letters(self, count: int) -> list[Stored]:
        """Wait until the stream DLQ has as many messages, and return them."""

        async def found() -> list[Stored] | None:
            letters = await self.letters()
            return letters if len(letters) == count else None

        return await until(found, seconds=90, what=f"{count} dead letters")

    async def publish(self, node: str = "n1") -> Event:
        """Publish an event, as services do."""
        event = event_of("test", MAIN, NodeFact(kind="node.down", node=node), version="1", time=now())
        await bus.publish_durable(self.client, SUBJECT, event, message_id=event.id)
        return event

    async def bury(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Make a dead letter as services do, and return its sequence."""
        self._buried += 1
        origin = f"TEST-{self._buried}"
        await bus.dead_letter(self.client, subject, body, headers, "a test", origin=origin)
        return (await self.letters())[-1].sequence

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[None]:
        """Run the archive's consumer with a reader that cannot read events while it is `broken`."""

        def read(body: bytes, headers: Mapping[str, str] | None) -> Event:
            if self.broken:
                raise InvalidMessage("an old release cannot read it")
            return decode(Event, body, headers)

        async def handle(_about: Subject, event: Event, _sequence: int) -> None:
            self.handled.append(event.id)

        consuming = broker(self._server.settings(), "test", client=self.client)
        await consuming.start()
        reading = durable(consuming, ARCHIVE, read, handle)
        await reading.start()
        try:
            yield
        finally:
            await reading.stop()
            await consuming.stop()

    async def wait_settled(self) -> None:
        """Wait until the reader has acknowledged every event."""

        async def settled() -> bool:
            info = await self.client.jetstream().consumer_info(ARCHIVE.stream, ARCHIVE.name)
            return (info.num_ack_pending, info.num_pending) == (0, 0)

        await until(settled, seconds=90, what="the acknowledgements")

    async def state(self, stream: str) -> Any:
        """The state of a stream."""
        return (await self.client.jetstream().stream_info(stream)).state
