"""Where a dead letter is published again, or why it is not.

Only messages of streams with a durable consumer reach a service again. Nobody waits for the answer to an old request.
An old heartbeat or desired state would replace a newer one, because their readers take the last value of a subject.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    MESSAGE_ID,
    SCHEMA,
    TRACEPARENT,
    InvalidMessage,
    decode,
    decode_foreign,
)
from clusterra_contracts.bus.large_queue import decode_head
from clusterra_contracts.bus.subjects import Subject, UnknownSubject
from clusterra_contracts.bus.topology import (
    EDGE_EVENT,
    EVENT,
    JOB,
    MAX_MESSAGE_BYTES,
    MAX_PAYLOAD_BYTES,
    Stream,
)
from clusterra_contracts.events import Event
from clusterra_events.edge_events import MAX_DECODED_BYTES
from pydantic import BaseModel

from clusterra_admin.dead_letters.body import opened
from clusterra_admin.dead_letters.letter import Letter

_HEADERS = (CONTENT_TYPE, CONTENT_ENCODING, SCHEMA, TRACEPARENT)
"""The headers of a message that a dead letter keeps. No other goes with it: some are commands to the stream."""


class Refused(Exception):
    """A dead letter is not published again. The text says why."""


@dataclass(frozen=True, slots=True)
class _Family:
    """The messages of one stream, and how its consumers read them."""

    stream: Stream
    read: Callable[[bytes, Mapping[str, str]], BaseModel]
    most_bytes: int
    """The largest body that is read, decompressed."""


FAMILIES: Mapping[str, _Family] = {
    "event": _Family(EVENT, partial(decode, Event), MAX_MESSAGE_BYTES),
    "edge-event": _Family(EDGE_EVENT, partial(decode_foreign, Event, max_bytes=MAX_DECODED_BYTES), MAX_DECODED_BYTES),
    "job.pending": _Family(JOB, decode_head, MAX_PAYLOAD_BYTES),
}
"""The families of subjects that durable consumers read."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The message that a dead letter becomes again."""

    about: Subject
    subject: str
    stream: str
    headers: Mapping[str, str]
    content: str
    """The same for all dead letters of one message: each of several readers may have made one."""

    def with_id(self, sequence: int) -> dict[str, str]:
        """The headers, with an id for the replay of the dead letter that has this `sequence`.

        The id is none of these:

        - The message's own id. Its stream has seen it, and would drop the replay within the window of deduplication.
          The proxy also takes from the ids of a cluster's events when it last published one: an old event that is
          stored now must not look like that.
        - A new id for each try. A replay that ended after the publication, and is repeated within the window, must
          publish nothing twice.
        - An id of the content alone. A message that fails again becomes another dead letter, whose replay must not be
          dropped as that of the first one.
        """
        return {**self.headers, MESSAGE_ID: f"replayed-{sequence}-{self.content}"}


def destination(letter: Letter) -> Destination:
    """Where a dead letter goes. Raises Refused."""
    try:
        about = subjects.parse(letter.row.subject)
    except UnknownSubject:
        raise Refused("no consumer takes messages of this subject again") from None
    family = FAMILIES.get(about.family)
    if family is None:
        raise Refused(f"no consumer takes messages of {about.family} again: requests and last values are sent anew")
    if letter.cut:
        raise Refused(f"only the first {letter.row.kept} of its {letter.row.size} bytes were kept")
    _check_readable(letter, about, family)
    subject = subjects.job_pending(about.ref) if family.stream is JOB else letter.row.subject
    kept = {key: value for key, value in letter.headers.items() if key.lower() in _HEADERS}
    content = hashlib.sha256(subject.encode() + b"\0" + letter.body).hexdigest()[:16]
    return Destination(about, subject, family.stream.name, kept, content)


def _check_readable(letter: Letter, about: Subject, family: _Family) -> None:
    """Read the message as its consumers do. One that this release cannot read would become a dead letter again."""
    body = opened(letter, family.most_bytes)
    if body.problem:
        raise Refused(f"it cannot be read: {body.problem}")
    plain = {key: value for key, value in letter.headers.items() if key != CONTENT_ENCODING}
    try:
        message = family.read(body.content, plain)
    except InvalidMessage as error:
        raise Refused(f"this release of clusterra-admin cannot read it: {error}") from None
    if isinstance(message, Event) and message.kind != about.rest:
        raise Refused(f"it is an event of kind {message.kind} on the subject of {about.rest}")
