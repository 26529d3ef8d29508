"""The routes of a cluster's events: pages of the archive, the whole of it, and the live stream."""

from typing import Annotated

from aiohttp import web
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import may_see
from pydantic import Field

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.events import exporting
from clusterra_gateway.events.live import LiveEvents
from clusterra_gateway.events.past import Pages, of_cluster
from clusterra_gateway.events.resuming import Resumed
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.answers.sse import EVENT_STREAM, LAST_EVENT_ID, at_position, last_event_id, stream
from clusterra_gateway.http.answers.streams import TABLE_WEIGHT, download, send
from clusterra_gateway.http.requests.parameters import CommaSeparated, Query, Time, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

EVENTS = f"{CLUSTER}/events"
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


class ExportQuery(Query):
    """Which events to export, oldest first. `kind` is as in the list of events. `since` is inclusive, `until` is
    exclusive. `cursor` goes on with an export that broke off.
    """

    kind: Annotated[tuple[str, ...] | None, CommaSeparated] = None
    since: Time | None = None
    until: Time | None = None
    cursor: str | None = None

    def read(self, viewer: Viewer) -> ReadHistory:
        """The request for its first page."""
        return ReadHistory(
            viewer=viewer,
            kinds=self.kind,
            after=self.since,
            before=self.until,
            cursor=self.cursor,
            limit=exporting.PAGE_EVENTS,
        )


class EventPage(ResponseBody):
    """One page of events; `cursor` continues after it and is null at the end."""

    events: tuple[Event, ...]
    cursor: str | None = None
    kept_from: Moment | None = None
    """Of events before this time, some of the kinds that were asked for are no longer kept."""

    @classmethod
    def of(cls, page: HistoryPage, viewer: Viewer) -> "EventPage":
        """What a viewer sees of a page. An archive of the release before knows no viewer."""
        visible = tuple(event for event in page.events if may_see(viewer, event.data))
        return cls(events=visible, cursor=page.cursor, kept_from=page.kept_from)


class Events:
    """The handlers of events."""

    def __init__(self, access: Access, archive: HistoryRequests, feed: EventFeed, live: LiveEvents) -> None:
        self._access = access
        self._archive = archive
        self._feed = feed
        self._live = live

    @api.get("events_list", EVENTS, query=EventsQuery, result=EventPage)
    async def page(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns a page of archived events, oldest first unless asked otherwise.

        Members see the events of the jobs that they see, and who sees everybody's jobs sees all events but those of
        members, tokens and keys, which are for admins. A page may have fewer events than `limit`, even none: `cursor`
        continues after it, and is null at the end. `kind=audit` means all kinds of the audit.

        `Event-Position` is the Last-Event-ID with which the stream tells every event that the pages of this list do not
        have, and none that they have. It is missing while the archive is behind the stream.
        """
        filters = query(request, EventsQuery)
        return await listed(of_cluster(self._archive, ref), filters, caller.viewer, self._feed.position)

    @api.get("events_export", f"{EVENTS}/export", stream=True, query=ExportQuery, result="*/*")
    async def export(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Exports the archived events of a range, oldest first, as JSON lines: those that the caller sees.

        Each line is an event, or has `export` alone: the number of events so far, and a `cursor` with which an export
        that breaks off goes on. Only the last line has null as its `cursor`: without it the export is not whole.
        """
        wanted = query(request, ExportQuery)
        response = download(f"events-{ref.cluster}.jsonl", exporting.MEDIA_TYPE)
        pages, permission = of_cluster(self._archive, ref), self._access.stream_permission(request, caller)
        lines = await exporting.lines(pages, wanted.read(caller.viewer), caller.viewer, permission)
        return await send(request, response, lines, weight=TABLE_WEIGHT)

    @api.get("events_stream", f"{EVENTS}/stream", stream=True, parameters=(LAST_EVENT_ID,), result=EVENT_STREAM)
    async def live(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Streams events as they happen. `id` is the event's position in the stream.

        Members get the events of the jobs that they see. Who sees everybody's jobs gets all events but those
        of members, tokens and keys, which are for admins. After a Last-Event-ID of any age it goes on with the events
        that followed, from the archive where need be.
        A `reset` event means that some events in between are not told: some may be no longer kept. The history has
        those that are.
        """
        resumed = Resumed(ref, caller.viewer, of_cluster(self._archive, ref))
        source = self._live.events(caller.member.id, resumed, last_event_id(request))
        return await stream(request, source, self._access.stream_permission(request, caller))


async def listed(pages: Pages, filters: EventsQuery, viewer: Viewer, position: int | None) -> web.StreamResponse:
    """The answer with a page of events."""
    read = ReadHistory(
        viewer=viewer, kinds=filters.kind, complete_to=position, **filters.model_dump(exclude={"kind", "cluster"})
    )
    page = await pages(read)
    return json_response(EventPage.of(page, viewer), headers=at_position(page.position))
