"""How the time of a cluster's workers divides by hour: they boot, they have jobs, or they are idle.

It is computed from the present workers and jobs and from what ended in the period: the event of an end also tells the
start. So nothing from before the period is read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Annotated, NamedTuple
from weakref import WeakValueDictionary

from aiohttp import web
from clusterra_contracts.events import JOB_ENDS, Event, JobFact, NodeFact, WorkerFact
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ClusterRef, JobId, Moment, WorkerName, now
from clusterra_contracts.queue import RunningJob
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.heartbeats import last_heartbeat
from pydantic import Field

from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.clusters.fleet import events_since
from clusterra_gateway.clusters.last_messages import fresh_queue, last_or_none
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.parameters import Query, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

KINDS = ("worker.*", "node.registered", "job.running", "job.requeued", *sorted(JOB_ENDS))
"""The kinds of events that say what workers did."""
MAX_HOURS = 48
"""The longest period, with the present hour."""
HOUR = timedelta(hours=1)
LONGEST_BOOT = timedelta(hours=1)
"""The longest time from a worker's start to the registration that ends its boot. A later one is of a restart."""
KEEP_SECONDS = 5.0
"""How long an answer is kept: it takes up to ten pages of the archive. Whoever wants a newer one waits no longer."""
MAX_ANSWERS = 1_000
MAX_SPANS = 200_000
"""How many spans the events of an answer may have: one for each node of a job. It bounds time and memory."""

api = cluster_routes(reads=Needs("clusters:read"))


class FleetHour(ResponseBody):
    """What the workers did from `begin` until the next whole hour (UTC), in seconds of all workers together.

    `booting`: until a worker registers with Slurm. `busy`: with at least one job. `idle`: the rest.
    """

    begin: Moment
    booting_seconds: int
    busy_seconds: int
    idle_seconds: int


class FleetHours(ResponseBody):
    """The hours of the period, the oldest first, also those without workers; the last one ends at `as_of`.

    `complete` is false where not all events were read: then the first hours are missing. Without a heartbeat, or a
    queue that may still be true, there are no hours, and `complete` is false. An answer may be seconds old: `as_of`.
    """

    as_of: Moment
    complete: bool
    hours: tuple[FleetHour, ...]


class Span(NamedTuple):
    """A time from a moment until another one."""

    begin: datetime
    end: datetime


class _Uses:
    """When workers of each name were alive, had jobs, and registered."""

    def __init__(self, after: datetime, until: datetime) -> None:
        self._after = after
        self._until = until
        self.lives = defaultdict[WorkerName, list[Span]](list)
        self.jobs = defaultdict[WorkerName, list[Span]](list)
        self.registered = defaultdict[WorkerName, list[datetime]](list)
        self._runs = dict[JobId, JobFact]()
        """The runs that have not ended, as far as the events went."""

    def follow(self, event: Event) -> None:
        """Go on to the next event, in the order of time."""
        match event.data:
            case WorkerFact(kind=kind) as fact if kind != "worker.started":
                self._add(self.lives, (fact.worker,), fact.started_at or self._after, event.time)
            case NodeFact(kind="node.registered", node=node):
                self.registered[node].append(event.time)
            case JobFact(kind="job.running") as fact:
                self._runs[fact.job_id] = fact
            case JobFact(kind="job.requeued", job_id=job_id):
                if (run := self._runs.pop(job_id, None)) is not None:
                    self._add(self.jobs, run.nodes, run.started_at, event.time)
            case JobFact() as fact:
                self._runs.pop(fact.job_id, None)
                self._add(self.jobs, fact.nodes, fact.started_at, fact.ended_at or event.time)

    def end(self, workers: Iterable[Worker], running: Iterable[RunningJob]) -> None:
        """Add what goes on now."""
        for worker in workers:
            if worker.phase != "failed":
                self._add(self.lives, (worker.name,), worker.started_at, self._until)
        for job in running:
            self._add(self.jobs, job.nodes, job.started_at, self._until)
        for run in self._runs.values():
            self._add(self.jobs, run.nodes, run.started_at, self._until)

    def _add(
        self, to: dict[WorkerName, list[Span]], names: Iterable[str], begin: datetime | None, end: datetime
    ) -> None:
        if begin is not None and begin < end and end > self._after:
            for name in names:
                to[name].append(Span(begin, end))

    def booted_at(self, worker: WorkerName, life: Span, jobs: Sequence[Span]) -> datetime:
        """When a worker finished booting: at its first registration or its first job, whichever came first.

        One that started before the period had finished before it, unless its first registration came within
        LONGEST_BOOT: a node registers again after a restart.
        """
        found = [at for at in self.registered[worker] if life.begin <= at <= life.end]
        if life.begin < self._after and (not found or min(found) - life.begin > LONGEST_BOOT):
            return life.begin
        found += [job.begin for job in jobs if life.begin <= job.begin < life.end]
        return min(found, default=life.end)


def hours_of(
    events: Iterable[Event], workers: Iterable[Worker], running: Iterable[RunningJob], period: Span
) -> tuple[FleetHour, ...]:
    """The hours of a period. `events` are all of it, in any order; `workers` and `running` are those of its end."""
    uses = _Uses(*period)
    for event in sorted(events, key=lambda each: each.time):
        uses.follow(event)
    uses.end(workers, running)
    alive, booting, busy = (defaultdict[datetime, float](float) for _ in range(3))
    for worker, lives in uses.lives.items():
        for life in _union(lives):
            jobs = [Span(max(each.begin, life.begin), min(each.end, life.end)) for each in uses.jobs[worker]]
            jobs = _union(each for each in jobs if each.begin < each.end)
            _count(alive, life, period)
            _count(booting, Span(life.begin, uses.booted_at(worker, life, jobs)), period)
            for job in jobs:
                _count(busy, job, period)
    return tuple(
        FleetHour(
            begin=begin,
            booting_seconds=round(booting[begin]),
            busy_seconds=round(busy[begin]),
            idle_seconds=max(0, round(alive[begin]) - round(booting[begin]) - round(busy[begin])),
        )
        for begin in _hours(period)
    )


def _union(spans: Iterable[Span]) -> list[Span]:
    """The spans without overlaps, in their order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.begin <= found[-1].end:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def _hours(span: Span) -> Iterable[datetime]:
    """The whole hours that a span has a part of."""
    hour = span.begin.replace(minute=0, second=0, microsecond=0)
    while hour < span.end:
        yield hour
        hour += HOUR


def _count(sums: dict[datetime, float], span: Span, period: Span) -> None:
    """Add the seconds of a span within the period to its hours."""
    part = Span(max(span.begin, period.begin), min(span.end, period.end))
    for hour in _hours(part):
        sums[hour] += (min(part.end, hour + HOUR) - max(part.begin, hour)).total_seconds()


class FleetHoursQuery(Query):
    """`hours`: how many hours back, with that which goes on."""

    hours: Annotated[int, Field(ge=1, le=MAX_HOURS)] = MAX_HOURS


class FleetHourHandlers:
    """The handler of the hours of fleets. They are the same for everybody who may see the cluster."""

    def __init__(self, archive: HistoryRequests, client: Client, registry: Registry) -> None:
        self._archive = archive
        self._client = client
        self._registry = registry
        self._answers = BoundedCache[tuple[ClusterRef, int], FleetHours](MAX_ANSWERS, KEEP_SECONDS)
        self._locks = WeakValueDictionary[ClusterRef, asyncio.Lock]()

    @api.get("clusters_fleet_hours", f"{CLUSTER}/fleet/hours", query=FleetHoursQuery, result=FleetHours)
    async def hours(self, request: web.Request, _caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns for each hour how long the workers booted, had jobs and were idle.

        The past is what the archive of events tells. At most 5,000 events are read. It names no jobs: everybody who may
        see the cluster may see it.
        """
        asked = query(request, FleetHoursQuery).hours
        lock = self._locks.setdefault(ref, asyncio.Lock())
        async with lock:
            found = self._answers.get((ref, asked)) or await self._read(ref, asked)
        return json_response(found)

    async def _read(self, ref: ClusterRef, hours: int) -> FleetHours:
        at = now()
        after = at.replace(minute=0, second=0, microsecond=0) - (hours - 1) * HOUR
        heard, queue = await asyncio.gather(
            last_or_none(ref, last_heartbeat(self._client, ref, self._registry.max_heartbeat_bytes(ref))),
            fresh_queue(self._client, ref),
        )
        # Without the running jobs, workers that have jobs would look idle.
        if heard is None or heard[0].workers is None or queue is None or queue.running is None:
            return FleetHours(as_of=at, complete=False, hours=())
        read, after, complete = await events_since(self._archive, ref, KINDS, after, at)
        events = _within_bound(read)
        if len(events) < len(read):
            complete, after = False, events[-1].time if events else at
        told = await asyncio.to_thread(hours_of, events, heard[0].workers, queue.running, Span(after, at))
        found = FleetHours(as_of=at, complete=complete, hours=told)
        self._answers.put((ref, hours), found)
        return found


def _within_bound(events: Sequence[Event]) -> Sequence[Event]:
    """The first of some events that have at most MAX_SPANS spans."""
    spans = accumulate(len(each.data.nodes) if isinstance(each.data, JobFact) else 1 for each in events)
    return events[: sum(so_far <= MAX_SPANS for so_far in spans)]
