"""The unsent messages of an item: what a write adds to it, and how many it may keep."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Self

from clusterra_contracts.bus.envelope import Message, encode
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusterra_runtime import trace
from clusterra_runtime.store.item import Attributes, InvalidItem, Key, Value
from clusterra_runtime.store.store import Index, Put, Update

OUTBOX = Index("outbox", partition="ob_shard", sort="ob_at")
"""Every table whose items carry messages needs this index. It holds only items with unsent messages."""
INDEX_PARTITIONS = 2
"""The number of partitions that share an index, such as that of a table's unsent messages; each allows 500 writes a
second."""
MOST_MESSAGES = 100
"""The most unsent messages that an item keeps. Beyond that the oldest are dropped, down to half of it."""
MOST_BYTES = 64 * 1024
"""The most bytes of unsent bodies that an item keeps: an item of DynamoDB holds 400 KiB, most of it for its content."""
ATTRIBUTES = ("outbox", OUTBOX.partition, OUTBOX.sort)
"""The attributes of an item that belong to its unsent messages."""


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


class Carrier(BaseModel):
    """The outbox attribute of an item."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    outbox: tuple[OutboxMessage, ...] = ()


def with_messages(write: Put | Update, messages: Sequence[OutboxMessage], *, now: float) -> Put | Update:
    """Returns the same write with messages, for use in transactions. `now` is in epoch seconds.

    Change an existing item by an Update: a Put would drop its unsent messages. Raises InvalidItem.
    """
    entries: list[Value] = [message.model_dump() for message in messages]
    index_attributes: dict[str, Value] = {OUTBOX.partition: index_partition(write.key), OUTBOX.sort: moment(now)}
    if isinstance(write, Put):
        if write.version != 1:
            raise InvalidItem("a put would drop unsent messages: use an Update")
        return replace(write, attributes={**write.attributes, **index_attributes, "outbox": entries})
    if write.keep_version:
        raise InvalidItem("a write with messages must make a new version: do not set keep_version")
    return replace(write, set={**write.set, **index_attributes}, append={**write.append, "outbox": entries})


def without_subject(attributes: Attributes, subject: str) -> dict[str, Value]:
    """What to set in an item whose unsent messages on a subject are superseded; empty if there are none.

    Earlier releases put full states into the outbox too.
    """
    try:
        messages = Carrier.model_validate(attributes).outbox
    except ValidationError:
        return {}
    kept: list[Value] = [each.model_dump() for each in messages if each.subject != subject]
    return {"outbox": kept} if len(kept) < len(messages) else {}


def without_messages(attributes: Attributes) -> dict[str, Value]:
    """An item's attributes without those of the outbox."""
    return {name: value for name, value in attributes.items() if name not in ATTRIBUTES}


def newest_messages(messages: Sequence[OutboxMessage]) -> tuple[OutboxMessage, ...]:
    """Those of an item's unsent messages that it keeps: all of them, or if they are too many the newest.

    Then half of what is allowed is kept, so that not every further write drops one; or the newest alone, where only
    that is within what is allowed.
    """
    if len(messages) <= MOST_MESSAGES and sum(len(each.body) for each in messages) <= MOST_BYTES:
        return tuple(messages)
    kept: list[OutboxMessage] = []
    room = MOST_BYTES // 2
    for message in reversed(messages[-(MOST_MESSAGES // 2) :]):
        room -= len(message.body)
        if room < 0 and (kept or len(message.body) > MOST_BYTES):
            break
        kept.append(message)
    return tuple(reversed(kept))


def index_partition(key: Key) -> str:
    """The partition of an index that an item belongs to, of `INDEX_PARTITIONS`."""
    return str(zlib.crc32(f"{key.pk}\0{key.sk}".encode()) % INDEX_PARTITIONS)


def moment(epoch_seconds: float) -> str:
    """A time as the index orders it."""
    return datetime.fromtimestamp(epoch_seconds, UTC).isoformat(timespec="milliseconds")
