"""The routes of the events of a whole workspace, for admins: those of all clusters, as of one."""

from typing import Annotated

from aiohttp import web
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.events import exporting
from clusterra_gateway.events.handlers import EventPage, EventsQuery, ExportQuery, listed
from clusterra_gateway.events.live import LiveEvents
from clusterra_gateway.events.past import of_tenant
from clusterra_gateway.events.resuming import Resumed
from clusterra_gateway.http.answers.sse import EVENT_STREAM, LAST_EVENT_ID, last_event_id, stream
from clusterra_gateway.http.answers.streams import TABLE_WEIGHT, download, send
from clusterra_gateway.http.requests.parameters import CommaSeparated, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes

EVENTS = "/v1/events"

api = caller_routes(reads=Needs("events:read", "admin"))


class TenantEventsQuery(EventsQuery):
    """The filters of the events of one cluster, and `cluster`: the clusters; without it, all."""

    cluster: Annotated[tuple[str, ...] | None, CommaSeparated] = None


class TenantExportQuery(ExportQuery):
    """The range of the export of one cluster, and `cluster`: the clusters; without it, all."""

    cluster: Annotated[tuple[str, ...] | None, CommaSeparated] = None


class TenantEvents:
    """The handlers of a workspace's events."""

    def __init__(
        self, access: Access, archive: HistoryRequests, registry: Registry, feed: EventFeed, live: LiveEvents
    ) -> None:
        self._access = access
        self._archive = archive
        self._registry = registry
        self._feed = feed
        self._live = live

    @api.get("tenant_events_list", EVENTS, query=TenantEventsQuery, result=EventPage)
    async def page(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a page of the archived events of all clusters of the workspace, as the list of one cluster does.

        With `kind=audit` it is the audit of the workspace. What was done to the workspace itself, such as to members
        and quotas, is in it once, as an event of one of the clusters.
        """
        filters = query(request, TenantEventsQuery)
        pages = of_tenant(self._archive, self._registry, caller.tenant, filters.cluster)
        return await listed(pages, filters, caller.viewer, self._feed.position)

    @api.get("tenant_events_export", f"{EVENTS}/export", stream=True, query=TenantExportQuery, result="*/*")
    async def export(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Exports the archived events of all clusters of the workspace, as the export of one cluster does."""
        wanted = query(request, TenantExportQuery)
        response = download(f"events-{caller.tenant.tenant}.jsonl", exporting.MEDIA_TYPE)
        pages = of_tenant(self._archive, self._registry, caller.tenant, wanted.cluster)
        permission = self._access.stream_permission(request, caller)
        lines = await exporting.lines(pages, wanted.read(caller.viewer), caller.viewer, permission)
        return await send(request, response, lines, weight=TABLE_WEIGHT)

    @api.get("tenant_events_stream", f"{EVENTS}/stream", stream=True, parameters=(LAST_EVENT_ID,), result=EVENT_STREAM)
    async def live(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Streams the events of all clusters of the workspace as they happen, also of clusters that are added later.

        It resumes as the stream of one cluster does. What was done to the workspace itself is told for each cluster.
        """
        pages = of_tenant(self._archive, self._registry, caller.tenant, None)
        source = self._live.events(
            caller.member.id, Resumed(caller.tenant, caller.viewer, pages), last_event_id(request)
        )
        return await stream(request, source, self._access.stream_permission(request, caller))
