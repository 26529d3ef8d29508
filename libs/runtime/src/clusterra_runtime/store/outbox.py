"""The outbox: the messages of a write are published, even if the process dies in between or NATS is away.

A write stores its messages in the written item itself, so both happen or neither. The writer publishes the messages
immediately and then removes them from the item. A relay publishes messages that a crash or an outage left behind.
Messages of one item are published in the order of its writes. A message may be published twice: JetStream drops the
repetition by its id within its deduplication window; later repetitions must be recognised by the consumer.
"""

import asyncio
import random
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Self

import structlog
from clusterra_contracts.bus.envelope import MESSAGE_ID, Message, encode
from prometheus_client import Counter, Gauge
from pydantic import BaseModel, ConfigDict, Field

from clusterra_runtime import trace
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.item import Attributes, InvalidItem, Item, Key, Value
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import ConditionFailed, Index, Put, Store, StoreError, Table, Update

log = structlog.get_logger(__name__)

OUTBOX = Index("outbox", partition="ob_shard", sort="ob_at")
"""Every table whose items carry messages needs this index. It holds only items with unsent messages."""
SHARDS = 2
"""The number of index partitions that share a table's unsent messages; each allows 500 writes a second."""
PUBLISH_SECONDS = 2.0
"""How long a writer waits for NATS before it leaves its messages to the relay."""
RELAY_EVERY_SECONDS = 1.5
RELAY_AFTER_SECONDS = 5.0
"""The age from which unsent messages count as left behind."""
_RELAY_CONCURRENCY = 16
_ATTRIBUTES = ("outbox", OUTBOX.partition, OUTBOX.sort)

SENT = Counter("clusterra_outbox_messages_total", "Messages of the outbox, by outcome", ("sender", "outcome"))

LEFT = Gauge("clusterra_outbox_left_items", "Items whose messages were left to the relay, at its last turn", ("table",))
LEFT_SECONDS = Gauge(
    "clusterra_outbox_oldest_seconds", "Age of the oldest messages left to the relay, at its last turn", ("table",)
)

type Publish = Callable[[str, bytes, Mapping[str, str]], Awaitable[object]]
"""Stores a message (subject, body, headers) in its stream. Raises if the message may not have been stored."""


class OutboxMessage(BaseModel):
    """One message of a write. `event_id` stays the same for every attempt to send it: `<entity>:<version>:<kind>`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    event_id: Annotated[str, Field(min_length=1)]
    subject: Annotated[str, Field(min_length=1)]
    body: bytes
    headers: Mapping[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, event_id: str, subject: str, message: Message) -> Self:
        """Makes the outbox message of a wire message, within the current trace."""
        body, headers = encode(message, message_id=event_id)
        trace.inject(headers)
        return cls(event_id=event_id, subject=subject, body=body, headers=headers)


class _Carrier(BaseModel):
    """The outbox attribute of an item."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    outbox: tuple[OutboxMessage, ...] = ()


def with_messages(
    write: Put | Update, messages: Sequence[OutboxMessage], *, now: float, superseding: bool = False
) -> Put | Update:
    """Returns the same write with messages, for use in transactions. `now` is in epoch seconds.

    `superseding` drops the unsent messages of earlier writes. Use it for full states, of which only the last matters,
    so that they do not pile up during an outage. Readers of full states compare generations, because a delayed writer
    may send late. Change an existing item by an Update: a Put would drop its unsent messages. Raises InvalidItem.
    """
    entries: list[Value] = [message.model_dump() for message in messages]
    index_attributes: dict[str, Value] = {OUTBOX.partition: _shard(write.key), OUTBOX.sort: _moment(now)}
    if isinstance(write, Put):
        if write.version != 1:
            raise InvalidItem("a put would drop unsent messages: use an Update")
        return replace(write, attributes={**write.attributes, **index_attributes, "outbox": entries})
    if write.keep_version:
        raise InvalidItem("a write with messages must make a new version: do not set keep_version")
    if superseding:
        return replace(write, set={**write.set, **index_attributes, "outbox": entries})
    return replace(write, set={**write.set, **index_attributes}, append={**write.append, "outbox": entries})


def without_messages(attributes: Attributes) -> dict[str, Value]:
    """An item's attributes without those of the outbox."""
    return {name: value for name, value in attributes.items() if name not in _ATTRIBUTES}


class Outbox:
    """Writes items and publishes their messages. Open it with `async with`; closing waits for running bookkeeping.

    Guarantees: each message of a write that happened reaches its stream at least once, as long as a replica runs
    `relay` on the table, and never before an earlier message of the same item. An item with unsent messages must
    neither be deleted nor expire.
    """

    def __init__(self, store: Store, publish: Publish, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._publish = publish
        self._clock = clock
        self._clearing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        while self._clearing:
            await asyncio.wait(self._clearing)

    async def write(self, write: Put | Update, messages: Sequence[OutboxMessage], *, superseding: bool = False) -> Item:
        """Write one item, send its messages and return the item. Raises what `Store.write` raises.

        It is not an error if NATS does not accept the messages in time: the write stands and the relay sends them.
        """
        now = self._clock()
        item = await self._store.write(with_messages(write, messages, now=now, superseding=superseding))
        await self._send(write.table, item, "writer")
        return replace(item, attributes=without_messages(item.attributes))

    async def send(self, table: Table, key: Key) -> None:
        """Send the unsent messages of an item. Call it after a transaction that wrote messages."""
        item = await self._store.get(table, key)
        if item is not None:
            await self._send(table, item, "writer")

    async def relay(self, *tables: Table) -> None:
        """Send messages that were left behind, until cancelled. Any number of replicas may run it."""
        while True:
            for table in tables:
                try:
                    await self.relay_once(table)
                except StoreError as error:
                    log.warning("outbox_not_read", table=table.name, reason=str(error))
            # Replicas that were started together must not query at the same time.
            await asyncio.sleep(RELAY_EVERY_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311

    async def relay_once(self, table: Table) -> int:
        """Send messages that were left behind in one table. Returns the number of items whose messages were sent."""
        limit = asyncio.Semaphore(_RELAY_CONCURRENCY)
        now = self._clock()
        before = _moment(now - RELAY_AFTER_SECONDS)
        left: list[str] = []

        async def send(key: Key) -> bool:
            async with limit:
                item = await self._store.get(table, key)
                # The index may lag behind, and a writer may have written the item again.
                left_at = None if item is None else item.attributes.get(OUTBOX.sort)
                if item is None or not isinstance(left_at, str) or left_at > before:
                    return False
                left.append(left_at)
                return await self._send(table, item, "relay")

        keys = [
            key
            for shard in range(SHARDS)
            for key in await self._store.query_index(table, OUTBOX, str(shard), sort=Between("0", before))
        ]
        sent = sum(await asyncio.gather(*(send(key) for key in keys)))
        LEFT.labels(table.name).set(len(left) - sent)
        oldest = 0.0 if sent == len(left) else now - datetime.fromisoformat(min(left)).timestamp()
        LEFT_SECONDS.labels(table.name).set(oldest)
        return sent

    async def _send(self, table: Table, item: Item, sender: str) -> bool:
        """Send all messages of an item in order, including unsent messages of earlier writes."""
        try:
            for message in _Carrier.model_validate(item.attributes).outbox:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await self._publish(
                        message.subject, message.body, {**message.headers, MESSAGE_ID: message.event_id}
                    )
                SENT.labels(sender, "sent").inc()
        except Exception as error:
            # Whatever the error, the message is safe in the item and will be sent again.
            SENT.labels(sender, "left").inc()
            log.warning("outbox_left_to_relay", table=table.name, sender=sender, reason=repr(error))
            return False
        clearing = asyncio.create_task(self._clear(table, item))
        self._clearing.add(clearing)
        clearing.add_done_callback(self._clearing.discard)
        return True

    async def _clear(self, table: Table, item: Item) -> None:
        """Remove sent messages from the item, unless it was written again: then that writer sends and removes all."""
        clear = Update(table, item.key, remove=_ATTRIBUTES, condition=VersionIs(item.version), keep_version=True)
        try:
            await self._store.write(clear)
        except ConditionFailed:
            log.debug("outbox_written_again", table=table.name)
        except StoreError as error:
            log.warning("outbox_not_cleared", table=table.name, reason=str(error))


def _shard(key: Key) -> str:
    return str(zlib.crc32(f"{key.pk}\0{key.sk}".encode()) % SHARDS)


def _moment(epoch_seconds: float) -> str:
    return datetime.fromtimestamp(epoch_seconds, UTC).isoformat(timespec="milliseconds")
