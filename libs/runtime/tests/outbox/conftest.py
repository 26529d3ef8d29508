"""Outboxes on a real NATS server and on both stores, with a clock that tests can set and publishers that fail."""

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

import pytest
from clusterra_contracts.bus.envelope import MESSAGE_ID
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import RELAY_AFTER_SECONDS, Publish
from clusterra_runtime.store.outbox_item import INDEX_PARTITIONS, OUTBOX, OutboxMessage
from clusterra_runtime.store.store import Store, Table, Update

JOBS = Table("jobs", (OUTBOX,))
KEY = Key("acme/c1", "job#1")


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def later(self) -> None:
        """Advance until all unsent messages count as left behind."""
        self.now += RELAY_AFTER_SECONDS + 1


class Crash(Exception):
    """Simulates the end of a process."""


class Faulty:
    """A publisher with planned faults, `before` or `after` the message is stored; an empty fault means success."""

    def __init__(self, publish: Publish, faults: Sequence[str]) -> None:
        self._publish = publish
        self._faults = list(faults)

    async def __call__(self, subject: str, body: bytes, headers: Mapping[str, str]) -> None:
        fault = self._faults.pop(0) if self._faults else ""
        if fault == "before":
            raise Crash
        await self._publish(subject, body, headers)
        if fault == "after":
            raise Crash


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "dynamodb"])
def adapter(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    request.getfixturevalue("aws")
    return DynamoDBStore(table_prefix=f"{uuid.uuid4()}-")


@pytest.fixture
async def store(adapter: Store) -> AsyncIterator[Store]:
    async with adapter as opened:
        await opened.create_tables(JOBS)
        yield opened


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    connection = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    await connection.jetstream().add_stream(name="EVENT", subjects=["event.>"])
    yield connection
    await bus.close(connection)


@pytest.fixture
def publish(client: Client) -> Publish:
    return partial(bus.store, client)


def outbox_message(version: int, kind: str = "changed", entity: str = "job-1") -> OutboxMessage:
    return OutboxMessage(
        event_id=f"{entity}:{version}:{kind}",
        subject=f"event.acme.c1.{entity}",
        body=f"{version}".encode(),
        headers={"content-type": "text/plain"},
    )


def change(version: int, key: Key = KEY) -> Update:
    """The write that makes a version of an item."""
    return Update(JOBS, key, set={"value": version}, condition=VersionIs(version - 1) if version > 1 else Absent())


async def stream(client: Client) -> list[tuple[str, bytes, str]]:
    """Subject, body and id of every stored message."""
    js = client.jetstream()
    last = (await js.stream_info("EVENT")).state.last_seq
    messages = [await js.get_msg("EVENT", sequence) for sequence in range(1, last + 1)]
    return [(str(each.subject), each.data or b"", (each.headers or {})[MESSAGE_ID]) for each in messages]


async def ids(client: Client) -> list[str]:
    return [message_id for _, _, message_id in await stream(client)]


async def unsent(store: Store) -> list[Key]:
    return [
        key for partition in range(INDEX_PARTITIONS) for key in await store.query_index(JOBS, OUTBOX, str(partition))
    ]
