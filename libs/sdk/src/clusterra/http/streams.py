"""Event streams that resume behind the last event that was received, until `end` or a permanent error."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from clusterra.errors import StreamEnded, media_type
from clusterra.exchange import Answer, Emit, Failure, Request, Retrying, Stream, now, opened, pause, read
from clusterra.http.retrying import failed, is_transient, pause_seconds, reason_of
from clusterra.http.sse import EventParser, EventTooLong, ServerSentEvent

SILENCE_SECONDS = 45.0
"""After so long without a byte a stream is opened again: the gateway writes every 15 s."""
LAST_EVENT_ID = "last-event-id"


@dataclass(frozen=True, slots=True)
class NoEvent:
    """No event came. The stream yields this after a ping and before it reconnects, so that its caller can act."""


NO_EVENT = NoEvent()


@dataclass(frozen=True, slots=True)
class Connection(NoEvent):
    """The stream is open, or it has broken and is opened again after a pause: then `error` says why."""

    error: str | None = None


def resumed(request: Request, url: str) -> Stream[ServerSentEvent | NoEvent]:
    """The events of a stream, across broken connections and restarts of the gateway. Each event comes once.

    `end` is the last event of a stream that has one. A gateway that has never answered is tried for the request's
    deadline, and one that has for as long as the caller goes on. Raises the errors of `clusterra.errors` that do not
    pass, such as SignInNeeded, Forbidden and NotFound.
    """
    request = replace(request, answer_seconds=SILENCE_SECONDS)
    began, position, attempt, connected = (yield from now()), None, 0, False
    answered = began
    while True:
        reply = yield from opened(_from(request, position))
        parser, event_seen = EventParser(), False
        if isinstance(reply, Answer) and reply.status == 200 and media_type(reply) == "text/event-stream":
            connected, retrying = True, None
            yield Emit(Connection())
            while not isinstance(chunk := (yield from read()), Failure) and chunk:
                try:
                    events = parser.add(chunk)
                except EventTooLong as too_long:
                    raise StreamEnded(str(too_long)) from None
                for event in events:
                    event_seen, position = True, event.id or position
                    yield Emit(event)
                    if event.event == "end":
                        return
                if not events:
                    yield Emit(NO_EVENT)
            answered = yield from now()
            broken = chunk.error if isinstance(chunk, Failure) else "the gateway has ended the stream"
        else:
            error = failed(url, reply)
            patient = connected or (yield from now()) < began + request.deadline_seconds
            if not (patient and is_transient(error)):
                raise error
            at = yield from now()
            left = None if connected else began + request.deadline_seconds - at
            retrying = Retrying(reason_of(reply), at - answered, 0.0, left)
            broken = str(error)
        attempt = 0 if event_seen else attempt + 1
        yield Emit(Connection(broken))
        seconds = pause_seconds(attempt, random.random())  # noqa: S311
        yield from pause(seconds, retrying and replace(retrying, pause_seconds=seconds))


def _from(request: Request, position: str | None) -> Request:
    if position is None:
        return request
    headers: Mapping[str, str] = MappingProxyType({**request.headers, LAST_EVENT_ID: position})
    return replace(request, headers=headers)
