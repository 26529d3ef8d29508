"""Routes a cluster's requests: subject → use case → reply."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import nats.errors
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import Wire
from clusterra_contracts.rpc.budgets import BUDGETS, Budget
from clusterra_contracts.rpc.estimate import Prepare
from clusterra_contracts.rpc.slurm import Cancel, FindKey, GetJob, ListJobs, ListWatched, Operation, Submit
from clusterra_contracts.rpc.slurm_jobs import ChangeJob
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Diagnose, Down, Drain, ListNodes, SetExtra, Undrain
from clusterra_contracts.rpc.slurm_rest import ReadRest
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.bus import Client
from nats.aio.subscription import Subscription

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.actions import Actions
from clusterra_proxy.requests.cancel import cancel
from clusterra_proxy.requests.change import change_job
from clusterra_proxy.requests.claim import find_here
from clusterra_proxy.requests.diagnosis import diagnose
from clusterra_proxy.requests.in_flight import InFlight
from clusterra_proxy.requests.nodes import delete_node, down, drain, list_nodes, set_extra, undrain
from clusterra_proxy.requests.prepare import prepare
from clusterra_proxy.requests.query import get_job
from clusterra_proxy.requests.rest.reads import RestReads
from clusterra_proxy.requests.submit import submit
from clusterra_proxy.requests.watched import find_watched, list_here, list_watched
from clusterra_proxy.slurmrestd.errors import Unavailable

QUEUE = "proxy"
"""Queue group: replicas share a cluster's requests."""
HANDOVER_SECONDS = 2.0
"""The end of watching waits so long for reads: another replica takes over only after it."""


@dataclass(frozen=True)
class Route[M: Wire, T: Wire]:
    """One operation: its request and its use case."""

    operation: Operation
    request: type[M]
    use_case: Callable[[Cluster, M], Awaitable[T]]

    async def serve(self, client: Client, cluster: Cluster, in_flight: InFlight, *, queue: str = QUEUE) -> Subscription:
        """Subscribe to this operation of a cluster. Without a queue group, every replica that serves it answers."""

        budget = BUDGETS.get(self.operation)

        async def handle(_subject: Subject, request: M) -> T:
            with in_flight:
                return await _within(budget, self.use_case(cluster, request))

        subject = subjects.slurm(cluster.ref, self.operation)
        return await rpc.serve(client, subject, self.request, handle, queue=queue)


async def _within[T](budget: Budget | None, work: Awaitable[T]) -> T:
    """Await the answer within its budget. Raises Unavailable, which says that the outcome is unknown."""
    try:
        async with asyncio.timeout(budget.proxy if budget else None) as scope:
            return await work
    except TimeoutError:
        if budget is None or not scope.expired():
            raise
        raise Unavailable(
            f"the cluster's Slurm did not answer within {budget.proxy:g} s", hint="try again in a moment"
        ) from None


@asynccontextmanager
async def serve(client: Client, cluster: Cluster, actions: Actions, rest: RestReads) -> AsyncIterator[None]:
    """Answer all operations of a cluster within the block. At its end, requests in flight are finished."""
    in_flight = InFlight()
    cluster.find_watched = partial(find_watched, client, cluster)
    subscriptions = (
        await Route("submit", Submit, submit).serve(client, cluster, in_flight),
        await Route("prepare", Prepare, prepare).serve(client, cluster, in_flight),
        await Route("get", GetJob, get_job).serve(client, cluster, in_flight),
        await Route("list", ListJobs, partial(list_watched, client)).serve(client, cluster, in_flight),
        await Route("cancel", Cancel, partial(cancel, actions)).serve(client, cluster, in_flight),
        await Route("change", ChangeJob, partial(change_job, actions)).serve(client, cluster, in_flight),
        await Route("nodes", ListNodes, list_nodes).serve(client, cluster, in_flight),
        await Route("drain", Drain, drain).serve(client, cluster, in_flight),
        await Route("undrain", Undrain, undrain).serve(client, cluster, in_flight),
        await Route("down", Down, down).serve(client, cluster, in_flight),
        await Route("delete-node", DeleteNode, delete_node).serve(client, cluster, in_flight),
        await Route("set-extra", SetExtra, set_extra).serve(client, cluster, in_flight),
        await Route("diag", Diagnose, diagnose).serve(client, cluster, in_flight),
        await Route("rest", ReadRest, rest.read).serve(client, cluster, in_flight),
    )
    async with _draining(subscriptions, in_flight, None):
        yield


@asynccontextmanager
async def serve_watched(client: Client, cluster: Cluster, rest: RestReads) -> AsyncIterator[None]:
    """Answer the requests that are for the replica that watches a cluster, within the block.

    There is no queue group: for a moment two replicas may watch, of which one is held up and does not know that it has
    lost its lease.
    """
    in_flight = InFlight()
    subscriptions = (
        await Route("get-watched", GetJob, get_job).serve(client, cluster, in_flight, queue=""),
        await Route("find-key", FindKey, find_here).serve(client, cluster, in_flight, queue=""),
        await Route("list-watched", ListWatched, list_here).serve(client, cluster, in_flight, queue=""),
        await Route("rest-watched", ReadRest, rest.read).serve(client, cluster, in_flight, queue=""),
    )
    async with _draining(subscriptions, in_flight, HANDOVER_SECONDS):
        yield


@asynccontextmanager
async def _draining(
    subscriptions: Iterable[Subscription], in_flight: InFlight, seconds: float | None
) -> AsyncIterator[None]:
    try:
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
