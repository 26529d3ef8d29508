"""The workers of a cluster over time, by shape: those that it should have, and those that it has.

The present and all changes before it are known. So the past is computed backwards from the present: before a decision a
shape had `replicas_before`, before its start a worker was not there, and before its end it was.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from aiohttp import web
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import SCALE
from clusterra_contracts.events import Event, ScaleFact, WorkerFact
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, Moment, ShapeName, WorkerName, now
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.heartbeats import last_heartbeat

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.clusters.last_messages import last_or_none
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.answers.sse import at_position
from clusterra_gateway.http.requests.parameters import Query, Time, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

KINDS = ("scale.decided", "worker.*")
"""The kinds of events that change a fleet."""
PAGE_EVENTS = 500
MAX_EVENTS = 5_000
"""How many events are read for one answer."""
DEFAULT_WINDOW = timedelta(hours=1)
LONGEST_WINDOW = timedelta(days=31)

api = cluster_routes(reads=Needs("clusters:read"))


class ShapeCount(ResponseBody):
    """The workers of one shape: how many should be there, and how many are. Null where nobody has told yet."""

    shape: ShapeName
    desired: int | None
    live: int | None


class FleetChange(ShapeCount):
    """The numbers of one shape from this moment on."""

    at: Moment


class Fleet(ResponseBody):
    """The workers by shape from `after` on: at first `before`, then after each of the `changes`, and last `now`.

    A worker is live from its start until its end, also while it boots. `complete` is false when there were more events
    than are read: then `after` is later than asked for.
    """

    after: Moment
    as_of: Moment
    complete: bool
    before: tuple[ShapeCount, ...]
    changes: tuple[FleetChange, ...]
    now: tuple[ShapeCount, ...]


class _Count(NamedTuple):
    desired: int | None
    live: int | None


@dataclass(slots=True)
class _Fleet:
    """A fleet at some moment. A shape or a list that is not known is None."""

    desired: dict[ShapeName, int | None] = field(default_factory=dict)
    live: dict[WorkerName, ShapeName] | None = None
    _live: Counter[ShapeName] = field(init=False)
    """The number of live workers by shape: each event asks for it."""

    def __post_init__(self) -> None:
        self._live = Counter((self.live or {}).values())

    def count(self, shape: ShapeName) -> _Count:
        return _Count(self.desired.get(shape), None if self.live is None else self._live[shape])

    def counts(self, shapes: Iterable[ShapeName]) -> tuple[ShapeCount, ...]:
        return tuple(ShapeCount(shape=shape, **self.count(shape)._asdict()) for shape in sorted(shapes))

    def undo(self, event: Event) -> tuple[ShapeName, ...]:
        """Go back to before an event. Returns the shapes that it may have changed."""
        match event.data:
            case ScaleFact(changes=changes):
                self.desired |= {change.shape: change.replicas_before for change in changes}
                return tuple(change.shape for change in changes)
            case WorkerFact(kind=kind, worker=worker, shape=shape) if self.live is not None:
                if (before := self.live.pop(worker, None)) is not None:
                    self._live[before] -= 1
                if kind != "worker.started":
                    self.live[worker] = shape
                    self._live[shape] += 1
                return (shape,)
        return ()


def fleet_over_time(
    desired: DesiredState | None, heartbeat: Heartbeat | None, newest_first: Iterable[Event], *, after: datetime
) -> tuple[tuple[ShapeCount, ...], tuple[FleetChange, ...], tuple[ShapeCount, ...]]:
    """Return the fleet before the events, the changes from old to new, and the present fleet.

    `newest_first` are the events since `after`, all of them. A change that was reported late appears at its own time.
    """
    fleet = _present(desired, heartbeat)
    present = _present(desired, heartbeat)
    changes: list[FleetChange] = []
    for event in newest_first:
        if event.time < after:
            break
        counts = {shape: fleet.count(shape) for shape in _shapes(event)}
        for shape in fleet.undo(event):
            count = counts[shape]
            if fleet.count(shape) != count:
                changes.append(FleetChange(at=event.time, shape=shape, desired=count.desired, live=count.live))
    shapes = {
        *(shape for each in (fleet, present) for shape in each.desired),
        *(shape for each in (fleet, present) for shape in (each.live or {}).values()),
        *(change.shape for change in changes),
    }
    return fleet.counts(shapes), tuple(reversed(changes)), present.counts(shapes)


def _present(desired: DesiredState | None, heartbeat: Heartbeat | None) -> _Fleet:
    targets = desired.targets if desired is not None else None
    workers = heartbeat.workers if heartbeat is not None else None
    return _Fleet(
        {target.shape: target.replicas for target in targets or ()},
        None if workers is None else {each.name: each.shape for each in workers if each.phase != "failed"},
    )


def _shapes(event: Event) -> tuple[ShapeName, ...]:
    match event.data:
        case ScaleFact(changes=changes):
            return tuple(change.shape for change in changes)
        case WorkerFact(shape=shape):
            return (shape,)
    return ()


class FleetQuery(Query):
    """`after`: the beginning of the period, by default an hour ago. A time more than 31 days ago counts as 31 days ago,
    one in the future as now.
    """

    after: Time | None = None


class FleetHandlers:
    """The handler of fleets."""

    def __init__(self, archive: HistoryRequests, client: bus.Client, registry: Registry, feed: EventFeed) -> None:
        self._archive = archive
        self._client = client
        self._registry = registry
        self._feed = feed

    @api.get("clusters_fleet", f"{CLUSTER}/fleet", query=FleetQuery, result=Fleet)
    async def fleet(self, request: web.Request, _caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns the desired and the live workers by shape, now and since `after`.

        The past is what the archive of events tells. At most 5,000 events are read.

        `Event-Position` is the Last-Event-ID with which the stream of events tells everything after this answer, and
        some of what it shows.
        """
        wanted = query(request, FleetQuery).after
        at = now()
        after = at - DEFAULT_WINDOW if wanted is None else min(max(wanted, at - LONGEST_WINDOW), at)
        told, heard = await asyncio.gather(
            last_or_none(ref, bus.last(self._client, SCALE.name, subjects.scale_desired(ref), DesiredState)),
            last_or_none(ref, last_heartbeat(self._client, ref, self._registry.max_heartbeat_bytes(ref))),
        )
        (desired, _), (heartbeat, heard_at) = told or (None, None), heard or (None, None)
        # It names no jobs: everybody who may see the cluster may see its fleet.
        events, after, complete = await events_since(self._archive, ref, KINDS, after, at)
        before, changes, present = await asyncio.to_thread(fleet_over_time, desired, heartbeat, events, after=after)
        return json_response(
            Fleet(after=after, as_of=at, complete=complete, before=before, changes=changes, now=present),
            headers=at_position(self._feed.reflected_at(at, heard_at)),
        )


async def events_since(
    archive: HistoryRequests, ref: ClusterRef, kinds: tuple[str, ...], after: datetime, at: datetime
) -> tuple[Sequence[Event], datetime, bool]:
    """The events of these kinds from `after` until `at`, the newest first, from when on they are all, and whether that
    is `after`.
    """
    asked = ReadHistory(kinds=kinds, after=after, newest_first=True, limit=PAGE_EVENTS)
    events, complete = await archive.events(ref, asked, most=MAX_EVENTS)
    if not complete:
        after = events[-1].time if events else at
    return events, after, complete
