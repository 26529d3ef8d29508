"""What has happened on a cluster, and what happens now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from clusterra.errors import Forbidden
from clusterra.exchange import Emit, Request, Steps, Stream, next_of
from clusterra.http.sse import ServerSentEvent
from clusterra.http.streams import LAST_EVENT_ID, Connection, resumed
from clusterra.models import Event, EventPage
from clusterra.operations.api import Api, query
from clusterra.operations.pages import paged

PAGE_EVENTS = 500


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events. What is not given does not filter."""

    kind: str | Sequence[str] = ()
    """A kind such as `job.failed`, or all kinds of something such as `job.*`."""
    subject: str | None = None
    """What the events are about, such as the id of a job."""
    after: datetime | None = None
    before: datetime | None = None
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """An event of the stream."""

    position: str
    """With it a later stream begins behind this event."""
    event: Event


@dataclass(frozen=True, slots=True)
class Gap:
    """Some events in between are missing: `history` has them."""

    position: str


type Streamed = StreamedEvent | Gap | Connection


def history(api: Api, path: str, wanted: EventFilter, limit: int | None = None) -> Stream[Event]:
    """The archived events of a filter, the oldest first unless it says otherwise."""
    kinds = (wanted.kind,) if isinstance(wanted.kind, str) else tuple(wanted.kind)
    asked = query(
        {
            "kind": kinds,
            "subject": wanted.subject,
            "after": wanted.after,
            "before": wanted.before,
            "newest_first": wanted.newest_first or None,
            "limit": PAGE_EVENTS if limit is None else max(1, min(limit, PAGE_EVENTS)),
        }
    )
    yield from paged(api, Request("GET", path, asked), EventPage, lambda page: (page.events, page.cursor), limit)


def streamed(api: Api, cluster: str | None, after: str | None, *, connections: bool = False) -> Stream[Streamed]:
    """The events of a cluster as they happen, from now on or behind a position. It ends when the caller stops.

    With `connections`, also when the connection is made and when it breaks.
    """
    if after is None:
        after = yield from _position(api, cluster)
    path = api.on("events", cluster)
    headers = {} if after is None else {LAST_EVENT_ID: after}
    stream = resumed(Request("GET", f"{path}/stream", headers=headers), api.url)
    while (emitted := (yield from next_of(stream))) is not None:
        if isinstance(emitted.value, ServerSentEvent) and (streamed := _read(emitted.value)) is not None:
            yield Emit(streamed)
        elif connections and isinstance(emitted.value, Connection):
            yield Emit(emitted.value)


def _position(api: Api, cluster: str | None) -> Steps[str | None]:
    """The present position in the stream of events; None for a caller who may not list jobs.

    Without it, events would be left out where a connection breaks before its first one.
    """
    try:
        answer = yield from api.ask(Request("GET", api.on("jobs", cluster), query({"limit": 1})))
    except Forbidden:
        return None
    return answer.headers.get("event-position")


def _read(event: ServerSentEvent) -> Streamed | None:
    """What an event of the stream is; None for one that this release cannot read."""
    position = event.id or ""
    if event.event == "reset":
        return Gap(position)
    try:
        return StreamedEvent(position, Event.model_validate_json(event.data))
    except ValidationError:
        return None
