"""A dead letter as the stream DLQ keeps it, and how it is found."""

import base64
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import DLQ
from clusterra_runtime.nats.bus import CUT, REASON
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored

from clusterra_admin.jetstream import stored_message
from clusterra_admin.newest import newest_first

_PREFIX = subjects.dead_letter("")
_LONGEST_REASON = 500
_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class Row:
    """A dead letter without its body. Its sizes are in bytes."""

    sequence: int
    stored_at: datetime | None
    subject: str
    """The subject on which nobody could handle the message."""
    reason: str
    size: int
    """The size of the message."""
    kept: int
    """How much of it the dead letter has: of a long one only the beginning."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter."""

    row: Row
    headers: Mapping[str, str]
    body: bytes

    @property
    def cut(self) -> bool:
        """Whether only the beginning of the message was kept."""
        return CUT in self.headers


@dataclass(frozen=True, slots=True)
class Found:
    """The newest dead letters, and whether there are older ones."""

    rows: list[Row]
    more: bool


async def newest(client: Client, pattern: str, most: int) -> Found:
    """At most `most` dead letters of messages on the subjects of a pattern, newest first. Raises BusUnavailable."""
    rows: list[Row] = []
    async with aclosing(newest_first(client, DLQ.name, subjects.dead_letter(pattern))) as letters:
        async for stored in letters:
            if len(rows) == most:
                return Found(rows, more=True)
            rows.append(row_of(stored))
    return Found(rows, more=False)


def row_of(stored: Stored) -> Row:
    """The row of a stored dead letter."""
    return _row(stored.sequence, stored.stored_at, stored.subject, stored.headers, len(stored.body))


async def read(client: Client, sequence: int) -> Letter | None:
    """The dead letter with a sequence; None if there is none. Raises BusUnavailable."""
    message = await stored_message(client, DLQ.name, sequence)
    if message is None:
        return None
    headers = _headers(base64.b64decode(message.get("hdrs", "")))
    body = base64.b64decode(message.get("data", ""))
    stored_at = datetime.fromisoformat(message["time"])
    return Letter(_row(sequence, stored_at, str(message["subject"]), headers, len(body)), headers, body)


def _row(sequence: int, stored_at: datetime | None, stored: str, headers: Mapping[str, str], kept: int) -> Row:
    # The subject is the stream's: the header with the subject is what the sender says, who may be an edge-agent.
    told = headers.get(CUT, "")
    size = int(told) if told.isascii() and told.isdigit() and len(told) <= _LONGEST_NUMBER else kept
    reason = headers.get(REASON, "")[:_LONGEST_REASON]
    return Row(sequence, stored_at, stored.removeprefix(_PREFIX), reason, max(size, kept), kept)


def _headers(raw: bytes) -> dict[str, str]:
    """The headers of a message: lines `name: value` after the line with the version. The last of a name counts."""
    found = {}
    for line in raw.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found[name.decode("utf-8", "replace").strip()] = value.decode("utf-8", "replace").strip()
    return found
