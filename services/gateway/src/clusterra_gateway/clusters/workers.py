"""The live workers of a cluster, what they do and cost now: `GET /v1/clusters/{cluster_id}/workers`."""

import asyncio
import time
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated
from weakref import WeakValueDictionary

from aiohttp import web
from clusterra_contracts.heartbeat import WorkerPhase
from clusterra_contracts.identity import ClusterRef, JobId, Moment, ShapeName, WorkerName
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.heartbeats import last_heartbeat
from pydantic import Field

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.clusters.last_messages import fresh_queue, last_or_none
from clusterra_gateway.clusters.worker_states import (
    PriceSource,
    ShapeWorkers,
    WorkerRow,
    WorkerState,
    by_shape,
    job_ids,
    rows_of,
)
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.answers.sse import at_position
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import Query, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

KEEP_SECONDS = 1.0
"""How long the workers of a cluster are kept: a large queue has megabytes."""
NAMED_JOBS = 20
"""How many jobs are named for a worker."""

api = cluster_routes(reads=Needs("jobs:read"))


class WorkerView(ResponseBody):
    """A worker. `state` is null where only Slurm could tell, and its nodes could not be read.

    `since` is when it began to boot or to be idle. `machine` is the name of what it runs on. `price_source` is
    `machine` for the present price of this very machine, `catalogue` for the list price of the shape, where the edge
    knows no prices; both are null where no price is known now. `running_jobs` counts all jobs on it, and `job_ids` has
    those that the caller sees, 20 at most. `leaves_by` is when its machine will be reclaimed, where that was announced.
    """

    name: WorkerName
    shape: ShapeName
    phase: WorkerPhase
    state: WorkerState | None
    since: Moment | None
    started_at: Moment
    reason: str
    machine: str
    leaves_by: Moment | None
    cpus: int | None
    cpus_allocated: int | None
    usd_per_hour: Decimal | None
    price_source: PriceSource | None
    running_jobs: int
    job_ids: tuple[JobId, ...]

    @classmethod
    def of(cls, row: WorkerRow, caller: Caller) -> "WorkerView":
        """What the caller sees of a worker."""
        worker, node = row.worker, row.node
        return cls(
            name=worker.name,
            shape=worker.shape,
            phase=worker.phase,
            state=row.state,
            since=row.since,
            started_at=worker.started_at,
            reason=(node.reason if node is not None and row.state == "draining" else "") or worker.reason,
            machine=worker.node,
            leaves_by=worker.leaves_by,
            cpus=node.cpus if node is not None else None,
            cpus_allocated=node.cpus_allocated if node is not None else None,
            usd_per_hour=row.usd_per_hour,
            price_source=row.price_source,
            running_jobs=len(row.jobs),
            job_ids=job_ids(row, caller.viewer.sees, NAMED_JOBS),
        )


class Workers(ResponseBody):
    """One page of workers by name, and the sums over all pages. `cursor` is null at the end.

    `workers` is null before the first heartbeat. `as_of` is when the edge told of them, and `queue_as_of` when Slurm's
    nodes and jobs were read, null where they could not be, or too long ago.
    """

    workers: tuple[WorkerView, ...] | None
    shapes: tuple[ShapeWorkers, ...]
    total: int
    cursor: str | None
    as_of: Moment | None
    queue_as_of: Moment | None


class WorkersQuery(Query):
    """`cursor`: where a page before has ended."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 500
    cursor: Annotated[str | None, Field(max_length=100)] = None


@dataclass(frozen=True, slots=True)
class _Known:
    rows: tuple[WorkerRow, ...] | None
    shapes: tuple[ShapeWorkers, ...]
    as_of: Moment | None
    queue_as_of: Moment | None
    position: int | None
    """In the stream of events: these are the workers after all events up to it."""
    keep_until: float
    """By the monotonic clock."""


class WorkerHandlers:
    """The handler of workers."""

    def __init__(self, client: Client, registry: Registry, feed: EventFeed) -> None:
        self._client = client
        self._feed = feed
        self._registry = registry
        self._known: dict[ClusterRef, _Known] = {}
        self._locks = WeakValueDictionary[ClusterRef, asyncio.Lock]()

    @api.get("clusters_workers", f"{CLUSTER}/workers", query=WorkersQuery, result=Workers)
    async def workers(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns the live workers, what they do, what they cost now, and the jobs on them that the caller sees.

        `Event-Position` is the Last-Event-ID with which the stream of events tells everything after this list, and some
        of what it shows: the edge and Slurm tell what is shown every few seconds.
        """
        asked = query(request, WorkersQuery)
        lock = self._locks.setdefault(ref, asyncio.Lock())
        async with lock:
            known = self._known.get(ref)
            if known is None or time.monotonic() >= known.keep_until:
                known = await self._read(ref)
                self._known = {each: kept for each, kept in self._known.items() if each in self._registry.clusters}
                self._known[ref] = known
        rows = known.rows or ()
        begin = 0 if asked.cursor is None else bisect_right(rows, asked.cursor, key=lambda row: row.worker.name)
        page = rows[begin : begin + asked.limit]
        return json_response(
            Workers(
                workers=None if known.rows is None else tuple(WorkerView.of(row, caller) for row in page),
                shapes=known.shapes,
                total=len(rows),
                cursor=page[-1].worker.name if begin + len(page) < len(rows) else None,
                as_of=known.as_of,
                queue_as_of=known.queue_as_of,
            ),
            headers=at_position(known.position),
        )

    async def _read(self, ref: ClusterRef) -> _Known:
        binding = self._registry.clusters.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        heard = await last_or_none(ref, last_heartbeat(self._client, ref, self._registry.max_heartbeat_bytes(ref)))
        keep_until = time.monotonic() + KEEP_SECONDS
        if heard is None or heard[0].workers is None:
            as_of = heard[1] if heard is not None else None
            return _Known(None, (), as_of, None, self._feed.reflected_at(as_of), keep_until)
        queue = await fresh_queue(self._client, ref)
        rows = await asyncio.to_thread(rows_of, heard[0], queue, binding)
        taken_at = queue.taken_at if queue is not None else None
        position = self._feed.reflected_at(heard[1], taken_at)
        return _Known(rows, by_shape(rows), heard[1], taken_at, position, keep_until)
