"""Where a dead letter would be published again, or why it would not help anybody.

Only messages of streams that services consume come back to a service. A request's sender has ended, and the last value
of a stream that is read by its subject (a heartbeat, a desired state) has been replaced by a newer one, which must not
be replaced by an older one.
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
"""The families of subjects whose messages a durable consumer is given again."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The message that a dead letter becomes again."""

    about: Subject
    subject: str
    stream: str
    headers: Mapping[str, str]
    content: str
    """The same for dead letters of the same message: several readers may have buried it."""

    def with_id(self, sequence: int) -> dict[str, str]:
        """The headers with an id of this dead letter's replay, where `sequence` is that of the dead letter.

        Not the message's own id: its stream has seen that, and within the window of deduplication would drop the
        replay. And the proxy takes from the ids of a cluster's events when it last told one, which an old event that
        is stored now must not say. Not a new one at each try either: a replay that died after the publication and is
        repeated within the window publishes nothing twice. Not one of the content alone: a message that fails again
        becomes another dead letter, and its replay must not be taken for the first one.
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
    """Read the message as its consumers do. What this release cannot read would only become a dead letter again."""
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
