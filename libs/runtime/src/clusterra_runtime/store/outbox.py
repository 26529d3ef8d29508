"""The outbox: the messages of a write are published, even if the process dies in between or NATS is away.

A write stores its messages in the written item itself, so both happen or neither. The writer publishes the messages
immediately and then removes them from the item. A relay publishes messages that a crash or an outage left behind.
Messages of one item are published in the order of its writes. A message may be published twice: JetStream drops the
repetition by its id within its deduplication window; later repetitions must be recognised by the consumer.

The outbox is for events, of which each matters. A full state, of which only the newest matters, does not belong here:
it would wait for the events before it. Its record holds the newest one, and its writer publishes that.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import batched
from typing import Any, Self

import structlog
from clusterra_contracts.bus.envelope import MESSAGE_ID
from prometheus_client import Counter, Gauge
from pydantic import ValidationError

from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.item import Item, Key, Value
from clusterra_runtime.store.outbox_item import (
    ATTRIBUTES,
    INDEX_PARTITIONS,
    OUTBOX,
    Carrier,
    OutboxMessage,
    moment,
    newest_messages,
    with_messages,
    without_messages,
)
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import ConditionFailed, ItemTooLarge, Put, Store, StoreError, Table, Update, Write

log = structlog.get_logger(__name__)

PUBLISH_SECONDS = 2.0
"""How long a writer waits for NATS before it leaves its messages to the relay."""
RELAY_EVERY_SECONDS = 1.5
RELAY_SELDOM_SECONDS = 30.0
"""The longest pause between two turns of the relay, while nothing can be sent or the store does not answer."""
RELAY_AFTER_SECONDS = 5.0
"""The age from which unsent messages count as left behind."""
_RELAY_CONCURRENCY = 16

SENT = Counter("clusterra_outbox_messages_total", "Messages of the outbox, by outcome", ("sender", "outcome"))

LEFT = Gauge("clusterra_outbox_left_items", "Items whose messages were left to the relay, at its last turn", ("table",))
LEFT_SECONDS = Gauge(
    "clusterra_outbox_oldest_seconds", "Age of the oldest messages left to the relay, at its last turn", ("table",)
)

type Publish = Callable[[str, bytes, Mapping[str, str]], Awaitable[object]]
"""Stores a message (subject, body, headers) in its stream. Raises if the message may not have been stored."""


class Outbox:
    """Writes items and publishes their messages. Open it with `async with`; closing waits for running bookkeeping.

    Guarantees: each message of a write that happened reaches its stream at least once, as long as a replica runs
    `relay` on the table, and never before an earlier message of the same item. An item with unsent messages must
    neither be deleted nor expire. An item keeps at most `MOST_MESSAGES` unsent messages of `MOST_BYTES`: in a longer
    outage the oldest are dropped, counted and logged, so that the item can still be written.
    """

    def __init__(self, store: Store, publish: Publish, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._publish = publish
        self._clock = clock
        self._running: set[asyncio.Task[Any]] = set()
        self._next: dict[tuple[str, Key], Item | None] = {}
        """The items that are being sent beside their writers, and what was written to them meanwhile."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        while self._running:
            await asyncio.wait(self._running)

    async def write(self, write: Put | Update, messages: Sequence[OutboxMessage]) -> Item:
        """Write one item, send its messages and return the item. Raises what `Store.write` raises.

        It is not an error if NATS does not accept the messages in time: the write stands and the relay sends them.
        """
        item = await self._store.write(with_messages(write, messages, now=self._clock()))
        await self._send(write.table, item, "writer")
        return replace(item, attributes=without_messages(item.attributes))

    async def transact(
        self, carrier: Put | Update, messages: Sequence[OutboxMessage], others: Sequence[Write] = (), *, token: str
    ) -> None:
        """Write several items or none, and send the messages, which the item of `carrier` holds until then.

        Raises what `Store.transact` raises. The reasons of TransactionCancelled are that of `carrier`, then those of
        the others in their order.
        """
        await self._store.transact([with_messages(carrier, messages, now=self._clock()), *others], token=token)
        item = await self._store.get(carrier.table, carrier.key)
        if item is not None:
            await self._send(carrier.table, item, "writer")

    async def write_first(self, write: Put | Update, messages: Sequence[OutboxMessage]) -> Item:
        """Write one item and return it; its messages are sent afterwards. Raises what `Store.write` raises.

        An item that has no room for the messages is written without them: what it records counts more.
        """
        try:
            item = await self._store.write(with_messages(write, messages, now=self._clock()))
        except ItemTooLarge:
            _dropped(write.table, write.key, len(messages), "the item has no room for them")
            return await self._store.write(write)
        self._send_beside(write.table, item)
        return replace(item, attributes=without_messages(item.attributes))

    def _send_beside(self, table: Table, item: Item) -> None:
        """Send an item's messages beside the caller; at most one sending of an item runs, the next is of its newest."""
        name = (table.name, item.key)
        if name in self._next:
            self._next[name] = item
            return

        async def send_all() -> None:
            following: Item | None = item
            while following is not None:
                self._next[name] = None
                try:
                    await self._send(table, following, "writer")
                finally:
                    following = self._next.pop(name)

        self._next[name] = None
        self._run(send_all())

    def _run(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def relay(self, *tables: Table) -> None:
        """Send messages that were left behind, until cancelled. Any number of replicas may run it.

        While NATS takes nothing or the store does not answer, the pauses grow up to `RELAY_SELDOM_SECONDS`.
        """
        await asyncio.gather(*(self._relay(table) for table in tables))

    async def _relay(self, table: Table) -> None:
        pause = RELAY_EVERY_SECONDS
        while True:
            try:
                sent, left = await self._turn(table)
                useless = left > 0 and not sent
            except StoreError as error:
                log.warning("outbox_not_read", table=table.name, reason=str(error))
                useless = True
            pause = min(2 * pause, RELAY_SELDOM_SECONDS) if useless else RELAY_EVERY_SECONDS
            # Replicas that were started together must not query at the same time.
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311

    async def relay_once(self, table: Table) -> int:
        """Send messages that were left behind in one table. Returns the number of items whose messages were sent."""
        sent, _ = await self._turn(table)
        return sent

    async def _turn(self, table: Table) -> tuple[int, int]:
        """Send what was left behind; returns how many items were sent, and how many stay.

        Ends when none of the first items can be sent: then NATS takes nothing now, and the others need not be read.
        """
        now = self._clock()
        before = moment(now - RELAY_AFTER_SECONDS)
        keys = [
            key
            for partition in range(INDEX_PARTITIONS)
            for key in await self._store.query_index(table, OUTBOX, str(partition), sort=Between("0", before))
        ]
        # So that items which can never be sent are not always the first.
        random.shuffle(keys)
        left: list[str] = []
        sent = 0

        async def send(key: Key) -> bool:
            item = await self._store.get(table, key)
            # The index may lag behind, and a writer may have written the item again.
            left_at = None if item is None else item.attributes.get(OUTBOX.sort)
            if item is None or not isinstance(left_at, str) or left_at > before:
                return False
            left.append(left_at)
            return await self._send(table, item, "relay")

        for batch in batched(keys, _RELAY_CONCURRENCY):
            sent += sum(await asyncio.gather(*map(send, batch)))
            if left and not sent:
                break
        stay = len(left) - sent
        LEFT.labels(table.name).set(len(keys) - sent if left and not sent else stay)
        oldest = now - datetime.fromisoformat(min(left)).timestamp() if stay else 0.0
        LEFT_SECONDS.labels(table.name).set(oldest)
        return sent, stay

    async def _send(self, table: Table, item: Item, sender: str) -> bool:
        """Send all messages of an item in order, including unsent messages of earlier writes."""
        try:
            for message in Carrier.model_validate(item.attributes).outbox:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await self._publish(
                        message.subject, message.body, {**message.headers, MESSAGE_ID: message.event_id}
                    )
                SENT.labels(sender, "sent").inc()
        except Exception as error:
            # Whatever the error, the message is safe in the item and will be sent again.
            SENT.labels(sender, "left").inc()
            log.warning("outbox_left_to_relay", table=table.name, sender=sender, reason=repr(error))
            await self._trim(table, item)
            return False
        if sender == "relay":
            # So that the relay slows down while the store is too busy.
            return await self._clear(table, item)
        self._run(self._clear(table, item))
        return True

    async def _trim(self, table: Table, item: Item) -> None:
        """Drop the oldest unsent messages of an item that has too many."""
        try:
            messages = Carrier.model_validate(item.attributes).outbox
        except ValidationError:
            return
        kept = newest_messages(messages)
        if len(kept) == len(messages):
            return
        entries: list[Value] = [message.model_dump() for message in kept]
        unchanged = VersionIs(item.version)
        trim = Update(table, item.key, set={"outbox": entries}, condition=unchanged, keep_version=True)
        try:
            await self._store.write(trim)
        except ConditionFailed:
            log.debug("outbox_written_again", table=table.name)
        except StoreError as error:
            log.warning("outbox_not_trimmed", table=table.name, reason=str(error))
        else:
            _dropped(table, item.key, len(messages) - len(kept), "too many are unsent")

    async def _clear(self, table: Table, item: Item) -> bool:
        """Remove sent messages from the item, unless it was written again: then that writer sends and removes all.

        Returns whether the store has answered.
        """
        clear = Update(table, item.key, remove=ATTRIBUTES, condition=VersionIs(item.version), keep_version=True)
        try:
            await self._store.write(clear)
        except ConditionFailed:
            log.debug("outbox_written_again", table=table.name)
        except StoreError as error:
            log.warning("outbox_not_cleared", table=table.name, reason=str(error))
            return False
        return True


def _dropped(table: Table, key: Key, messages: int, reason: str) -> None:
    SENT.labels("writer", "dropped").inc(messages)
    log.error("outbox_messages_dropped", table=table.name, item=key.pk, messages=messages, reason=reason)
