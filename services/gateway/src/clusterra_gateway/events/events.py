"""A cluster's events: the archive's pages, and the live stream."""

from collections.abc import AsyncGenerator
from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_contracts.rpc.history import ReadHistory
from pydantic import Field

from clusterra_gateway.bus.feed import Feed, Told, TooSlow
from clusterra_gateway.context import gateway
from clusterra_gateway.http.parameters import CommaSeparated, Query, cluster, query
from clusterra_gateway.http.replies import reply
from clusterra_gateway.http.sse import ServerSentEvent, last_event_id, stream
from clusterra_gateway.identity.authentication import Caller


class EventsQuery(Query):
    """Filters; `kind` is one like `job.failed` or all of an entity like `job.*`. `before` itself is not included."""

    kind: Annotated[tuple[str, ...] | None, CommaSeparated] = None
    subject: str | None = None
    after: Moment | None = None
    before: Moment | None = None
    newest_first: bool = False
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    cursor: str | None = None


async def events(request: web.Request, caller: Caller) -> web.StreamResponse:
    """A page of archived events, oldest first unless asked otherwise."""
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    wanted = query(request, EventsQuery)
    return reply(
        await parts.upstream.history(
            ref,
            ReadHistory(
                kinds=wanted.kind,
                subject=wanted.subject,
                after=wanted.after,
                before=wanted.before,
                newest_first=wanted.newest_first,
                limit=wanted.limit,
                cursor=wanted.cursor,
            ),
        )
    )


async def events_stream(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Events as they happen: `id` is the place in the stream, `reset` says that some in between are not kept."""
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    source = _events(parts.feed, ref, last_event_id(request))
    return await stream(request, source, allowed=parts.authentication.allows(request))


async def _events(feed: Feed, ref: ClusterRef, after: int | None) -> AsyncGenerator[ServerSentEvent]:
    with feed.subscribe(ref) as live:  # first of all, so that nothing is lost between the past and the present
        if after is not None:
            kept = await feed.kept()
            if kept.covers(after):
                async for told in feed.past(ref, after=after):
                    after = told.sequence
                    yield _sent(told)
            else:
                after = kept.last
                yield ServerSentEvent('{"reason": "events in between are not kept"}', event="reset", id=after)
        try:
            while True:
                told = await live.next()
                if after is None or told.sequence > after:
                    yield _sent(told)
        except TooSlow:
            return  # the client comes again and says where it was


def _sent(told: Told) -> ServerSentEvent:
    return ServerSentEvent(told.event.model_dump_json(), id=told.sequence)
