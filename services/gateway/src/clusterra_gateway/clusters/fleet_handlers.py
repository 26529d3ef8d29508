"""The route of a cluster's fleet over time: `GET /v1/clusters/{cluster_id}/fleet`."""

import asyncio
from datetime import datetime, timedelta

import structlog
from aiohttp import web
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.topology import HB, SCALE
from clusterra_contracts.events import Event
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats import bus
from pydantic import BaseModel

from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.clusters.fleet import KINDS, Fleet, fleet_over_time
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.parameters import Query, Time, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

log = structlog.get_logger()

PAGE_EVENTS = 500
MAX_EVENTS = 5_000
"""How many events are read for one answer."""
MAX_PAGES = 20
"""How many pages are read for one answer: a page may be short."""
DEFAULT_WINDOW = timedelta(hours=1)
LONGEST_WINDOW = timedelta(days=31)


api = cluster_routes(reads=Needs("clusters:read"))


class FleetQuery(Query):
    """`after`: the beginning of the time that is told, by default an hour ago. An earlier one than 31 days ago
    counts as that, one to come as now.
    """

    after: Time | None = None


class FleetHandlers:
    """The handler of fleets."""

    def __init__(self, archive: HistoryRequests, client: bus.Client) -> None:
        self._archive = archive
        self._client = client

    @api.get("clusters_fleet", f"{CLUSTER}/fleet", query=FleetQuery, result=Fleet)
    async def fleet(self, request: web.Request, _caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns the desired and the live workers by shape, now and since `after`.

        The past is what the archive of events tells. At most 5,000 events are read.
        """
        asked = query(request, FleetQuery).after
        at = now()
        after = at - DEFAULT_WINDOW if asked is None else min(max(asked, at - LONGEST_WINDOW), at)
        desired, heartbeat = await asyncio.gather(
            self._last(SCALE.name, subjects.scale_desired(ref), DesiredState),
            self._last(HB.name, subjects.heartbeat(ref), Heartbeat),
        )
        events, complete = await self._events(ref, after)
        if not complete:
            after = events[-1].time if events else at
        before, changes, present = fleet_over_time(desired, heartbeat, events, after=after)
        return json_response(
            Fleet(after=after, as_of=at, complete=complete, before=before, changes=changes, now=present)
        )

    async def _events(self, ref: ClusterRef, after: datetime) -> tuple[list[Event], bool]:
        """The newest events first, and whether they are all."""
        found: list[Event] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            if len(found) >= MAX_EVENTS:
                break
            # It names no jobs: everybody who may see the cluster may see its fleet.
            asked = ReadHistory(kinds=KINDS, after=after, newest_first=True, limit=PAGE_EVENTS, cursor=cursor)
            page = await self._archive.history(ref, asked)
            found += page.events
            cursor = page.cursor
            if cursor is None:
                return found, True
        return found, False

    async def _last[M: BaseModel](self, stream: str, subject: str, model: type[M]) -> M | None:
        try:
            found = await bus.last(self._client, stream, subject, model)
        except (InvalidMessage, bus.BusUnavailable) as error:
            log.warning("fleet_not_read", subject=subject, reason=str(error))
            return None
        return found[0] if found else None
