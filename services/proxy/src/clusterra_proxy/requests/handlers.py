"""Routes a cluster's requests: subject → use case → reply."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import nats.errors
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import Wire
from clusterra_contracts.rpc.deadlines import DEADLINES, Deadlines
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.slurm import Cancel, CountJobs, FindKey, GetJob, ListJobs, ListWatched, Operation, Submit
from clusterra_contracts.rpc.slurm_jobs import ChangeJob
from clusterra_contracts.rpc.slurm_limits import BlockSubmits
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Diagnose, Down, Drain, ListNodes, SetExtra, Undrain
from clusterra_contracts.rpc.slurm_rest import ReadRest
from clusterra_contracts.rpc.slurm_scripts import ReadScript
from clusterra_contracts.rpc.slurm_steps import ReadSteps
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.bus import Client
from nats.aio.subscription import Subscription

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.accounts.block_submits import block_submits
from clusterra_proxy.requests.actions import Actions
from clusterra_proxy.requests.cancel import cancel
from clusterra_proxy.requests.change import change_job
from clusterra_proxy.requests.claim import find_here
from clusterra_proxy.requests.diagnosis import diagnose
from clusterra_proxy.requests.in_flight import InFlight
from clusterra_proxy.requests.nodes import delete_node, down, drain, list_nodes, set_extra, undrain
from clusterra_proxy.requests.prepare import prepare
from clusterra_proxy.requests.query import count_jobs, get_job
from clusterra_proxy.requests.rest.reads import RestReads
from clusterra_proxy.requests.script import read_script
from clusterra_proxy.requests.steps import read_steps
from clusterra_proxy.requests.submit import submit
from clusterra_proxy.requests.watched import count_watched, find_watched, list_here, list_watched
from clusterra_proxy.slurmrestd.errors import Unavailable

QUEUE = "proxy"
"""Queue group: replicas share a cluster's requests."""
IN_SLOTS = 1024
"""How many requests of one operation are taken at a time: more than one user may have waiting for their turns, so that
those of others are taken beside them."""
HANDOVER_SECONDS = 2.0
"""The end of watching waits so long for reads: another replica takes over only after it."""


@dataclass(frozen=True)
class Route[M: Wire, T: Wire]:
    """One operation: its request and its use case."""

    operation: Operation
    request: type[M]
    use_case: Callable[[Cluster, M], Awaitable[T]]
    whose: Callable[[M], int] | None = None
    """The uid of who asks; None where requests wait for no turns of their user here."""

    async def serve(self, client: Client, cluster: Cluster, in_flight: InFlight, *, queue: str = QUEUE) -> Subscription:
        """Subscribe to this operation of a cluster. Without a queue group, every replica that serves it answers."""

        deadlines = DEADLINES.get(self.operation)

        async def handle(_subject: Subject, request: M) -> T:
            with in_flight:
                return await _within(deadlines, self._in_turn(cluster, request))

        subject = subjects.slurm(cluster.ref, self.operation)
        return await rpc.serve(client, subject, self.request, handle, queue=queue, concurrency=IN_SLOTS)

    async def _in_turn(self, cluster: Cluster, request: M) -> T:
        if self.whose is None:
            return await self.use_case(cluster, request)
        async with cluster.turns.turn(self.whose(request)):
            return await self.use_case(cluster, request)


def _viewer(asked: GetJob | ListJobs | Cancel | ChangeJob | ReadSteps | ReadScript | ReadRest) -> int:
    return asked.viewer.user.uid


async def _within[T](deadlines: Deadlines | None, work: Awaitable[T]) -> T:
    """Await the answer within its deadline. Raises Unavailable, which says that the outcome is unknown."""
    try:
        async with asyncio.timeout(deadlines.proxy if deadlines else None) as scope:
            return await work
    except TimeoutError:
        if deadlines is None or not scope.expired():
            raise
        raise Unavailable(
            f"the cluster's Slurm did not answer within {deadlines.proxy:g} s", hint="try again in a moment"
        ) from None


@asynccontextmanager
async def serve(client: Client, cluster: Cluster, actions: Actions, rest: RestReads) -> AsyncIterator[None]:
    """Answer all operations of a cluster within the block. At its end, requests in flight are finished."""
    in_flight = InFlight()
    cluster.find_watched = partial(find_watched, client, cluster)
    routes: tuple[Route[Any, Any], ...] = (
        Route("submit", Submit, submit),
        Route("prepare", Prepare, prepare, lambda asked: asked.user.uid),
        Route("get", GetJob, get_job, _viewer),
        Route("list", ListJobs, partial(list_watched, client), _viewer),
        Route("count", CountJobs, partial(count_watched, client), lambda asked: asked.request.viewer.user.uid),
        Route("cancel", Cancel, partial(cancel, actions), _viewer),
        Route("change", ChangeJob, partial(change_job, actions), _viewer),
        Route("block-submits", BlockSubmits, block_submits),
        Route("steps", ReadSteps, read_steps, _viewer),
        Route("script", ReadScript, read_script, _viewer),
        Route("nodes", ListNodes, list_nodes),
        Route("drain", Drain, drain),
        Route("undrain", Undrain, undrain),
        Route("down", Down, down),
        Route("delete-node", DeleteNode, delete_node),
        Route("set-extra", SetExtra, set_extra),
        Route("diag", Diagnose, diagnose),
        Route("rest", ReadRest, rest.read, _viewer),
    )
    subscribing = (partial(route.serve, client, cluster, in_flight) for route in routes)
    async with _draining(subscribing, in_flight, None):
        yield


@asynccontextmanager
async def serve_watched(client: Client, cluster: Cluster, rest: RestReads) -> AsyncIterator[None]:
    """Answer the requests that are for the replica that watches a cluster, within the block.

    There is no queue group: for a moment two replicas may watch, of which one is held up and does not know that it has
    lost its lease.
    """
    in_flight = InFlight()
    routes: tuple[Route[Any, Any], ...] = (
        Route("get-watched", GetJob, get_job),
        Route("find-key", FindKey, find_here),
        Route("list-watched", ListWatched, list_here),
        Route("count-watched", CountJobs, count_jobs),
        Route("rest-watched", ReadRest, rest.read),
    )
    subscribing = (partial(route.serve, client, cluster, in_flight, queue="") for route in routes)
    async with _draining(subscribing, in_flight, HANDOVER_SECONDS):
        yield


@asynccontextmanager
async def _draining(
    subscribing: Iterable[Callable[[], Awaitable[Subscription]]], in_flight: InFlight, seconds: float | None
) -> AsyncIterator[None]:
    """Subscribe, and end all subscriptions after the block, also when cancelled before all of them are there.

    One that is left would take requests for a cluster that is closed.
    """
    subscriptions: list[Subscription] = []
    try:
        for subscribe in subscribing:
            subscriptions.append(await subscribe())
        yield
    finally:
        for subscription in subscriptions:
            # Without a connection no more requests arrive anyway.
            with suppress(nats.errors.Error):
                await subscription.drain()  # type: ignore[no-untyped-call]
        # Requests that have arrived start in the next iteration of the event loop.
        await asyncio.sleep(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await in_flight.wait_until_empty()
