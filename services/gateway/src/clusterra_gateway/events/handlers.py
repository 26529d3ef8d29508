"""The routes of a cluster's events: pages of the archive, and the live stream."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated
from weakref import WeakValueDictionary

from aiohttp import web
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import may_see
from pydantic import Field

from clusterra_gateway.bus.event_feed import EventFeed, StreamedEvent, SubscriberTooSlow
from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.answers.sse import (
    EVENT_STREAM,
    LAST_EVENT_ID,
    ServerSentEvent,
    at_position,
    last_event_id,
    stream,
)
from clusterra_gateway.http.requests.parameters import CommaSeparated, Query, Time, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

MAX_EVENTS = 20_000
"""Of one resumption, those that the client may not see included. A client that is further behind reads the history."""
EVENTS_PER_PAUSE = 250
PAUSE_SECONDS = 0.05
"""Three times what it takes to read as many events."""


class Resumptions:
    """Reads the events after a position, for each member one stream after the other."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    async def events(self, member_id: str, ref: ClusterRef, *, after: int) -> AsyncGenerator[StreamedEvent | None]:
        """Yield a cluster's events after a position; None at the end if there are more. Raises BusUnavailable."""
        lock = self._locks.setdefault(member_id, asyncio.Lock())
        async with lock:
            count = 0
            async for event in self._feed.replay(ref, after=after):
                if count == MAX_EVENTS:
                    yield None
                    return
                yield event
                count += 1
                if count % EVENTS_PER_PAUSE == 0:
                    await asyncio.sleep(PAUSE_SECONDS)


EVENTS = f"{CLUSTER}/events"
NOT_RETAINED = '{"reason": "some events in between are no longer retained"}'
TOO_MANY = '{"reason": "too many events in between; the history of the cluster has them"}'
MAX_SUBJECT_CHARACTERS = 500
"""The longest filter: the archive's keys have at most 2048 bytes."""

api = cluster_routes(reads=Needs("events:read"))


class EventsQuery(Query):
    """Filters. `kind` is one kind such as `job.failed`, or all kinds of an entity such as `job.*`. `before` is
    exclusive.
    """

    kind: Annotated[tuple[str, ...] | None, CommaSeparated] = None
    subject: Annotated[str | None, Field(max_length=MAX_SUBJECT_CHARACTERS)] = None
    after: Time | None = None
    before: Time | None = None
    newest_first: bool = False
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    cursor: str | None = None


class EventPage(ResponseBody):
    """One page of events; `cursor` continues after it and is null at the end."""

    events: tuple[Event, ...]
    cursor: str | None = None


class Events:
    """The handlers of events."""

    def __init__(self, access: Access, archive: HistoryRequests, feed: EventFeed) -> None:
        self._access = access
        self._archive = archive
        self._feed = feed
        self._resumptions = Resumptions(feed)

    @api.get("events_list", EVENTS, query=EventsQuery, result=EventPage)
    async def page(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns a page of archived events, oldest first unless asked otherwise.

        Members see the events of the jobs that they see, and who sees everybody's jobs sees all events but those of
        members, tokens and keys, which are for admins. A page may have fewer events than `limit`, even none: `cursor`
        continues after it, and is null at the end.

        `Event-Position` is the Last-Event-ID with which the stream tells every event that the pages of this list do not
        have, and none that they have. It is missing while the archive is behind the stream.
        """
        filters = query(request, EventsQuery)
        page = await self._archive.history(
            ref,
            ReadHistory(
                viewer=caller.viewer,
                kinds=filters.kind,
                complete_to=self._feed.position,
                **filters.model_dump(exclude={"kind"}),
            ),
        )
        # An archive of the release before knows no viewer.
        visible = tuple(event for event in page.events if may_see(caller.viewer, event.data))
        return json_response(EventPage(events=visible, cursor=page.cursor), headers=at_position(page.position))

    @api.get("events_stream", f"{EVENTS}/stream", stream=True, parameters=(LAST_EVENT_ID,), result=EVENT_STREAM)
    async def live(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Streams events as they happen. `id` is the event's position in the stream.

        Members get the events of the jobs that they see. Who sees everybody's jobs gets all events but those
        of members, tokens and keys, which are for admins.
        A `reset` event means that some events in between are not told: they are no longer retained, or there are more
        than 20,000. The history has them.
        """
        source = self._events(ref, caller.viewer, caller.member.id, last_event_id(request))
        return await stream(request, source, self._access.stream_permission(request, caller))

    async def _events(
        self, ref: ClusterRef, viewer: Viewer, member_id: str, after: int | None
    ) -> AsyncGenerator[ServerSentEvent]:
        with self._feed.subscribe(
            ref, visible=lambda fact: may_see(viewer, fact)
        ) as live:  # before the replay, so that no event is lost between the two
            if after is not None:
                retained = await self._feed.retained()
                if retained.follows(after):
                    async for event in self._resumptions.events(member_id, ref, after=after):
                        if event is None:
                            after = retained.last
                            yield ServerSentEvent(TOO_MANY, event="reset", id=after)
                            break
                        after = event.sequence
                        if may_see(viewer, event.event.data):
                            yield _encoded(event)
                else:
                    after = retained.last
                    yield ServerSentEvent(NOT_RETAINED, event="reset", id=after)
            try:
                while True:
                    event = await live.next()
                    if after is None or event.sequence > after:
                        yield _encoded(event)
            except SubscriberTooSlow:
                return  # the client reconnects and says where it was


def _encoded(event: StreamedEvent) -> ServerSentEvent:
    return ServerSentEvent(event.event.model_dump_json(), id=event.sequence)
