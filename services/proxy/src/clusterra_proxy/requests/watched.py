"""Lists jobs where the cluster is watched: the replica that watches it answers from its observation.

Any other replica would have to read all jobs from slurmctld for each request.
"""

import asyncio
from datetime import timedelta

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.budgets import WATCHED
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import JobPage, ListJobs, ListWatched
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.bus import Client
from prometheus_client import Counter

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.query import list_jobs

OWN_CHANGE_SECONDS = 10.0
"""For this time after a change through this replica, the watching one waits for its next poll before it answers."""
ALONE = timedelta(seconds=60)
"""For how long the watching replica is not asked after it did not answer in time. Without the permission to ask, no
replica learns that nobody will answer."""
_LOOK_SECONDS = 0.2

LISTS = Counter(
    "clusterra_proxy_lists_total",
    "Lists of jobs, by who answered: this replica, which watches; the one that watches; or this one without any",
    ("source",),
)


async def list_watched(client: Client, cluster: Cluster, request: ListJobs) -> JobPage:
    """Return one page of jobs, from the replica that watches the cluster if there is one. Raises RpcFailed."""
    alone = cluster.lists_alone_until is not None and now() < cluster.lists_alone_until
    if cluster.listener is None and not alone:
        asking = asyncio.create_task(_ask(client, cluster, request))
        watching = asyncio.create_task(_until_watching(cluster))
        try:
            await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                try:
                    page = asking.result()
                except rpc.RpcFailed as failed:
                    if not _unanswered(failed.error):
                        raise
                    if failed.error.effect == "unknown":
                        cluster.lists_alone_until = now() + ALONE
                else:
                    LISTS.labels("watching-replica").inc()
                    return page
        finally:
            asking.cancel()
            watching.cancel()
            await asyncio.gather(asking, watching, return_exceptions=True)
    LISTS.labels("slurmctld" if cluster.listener is None else "own-watch").inc()
    return await list_jobs(cluster, request)


async def list_here(cluster: Cluster, request: ListWatched) -> JobPage:
    """Return one page of jobs from this replica, which watches the cluster."""
    return await list_jobs(cluster, request.request, fresh=request.fresh)


async def _ask(client: Client, cluster: Cluster, request: ListJobs) -> JobPage:
    recent = cluster.changed_at is not None and (now() - cluster.changed_at).total_seconds() < OWN_CHANGE_SECONDS
    subject = subjects.slurm(cluster.ref, "list-watched")
    asked = ListWatched(request=request, fresh=recent)
    return await rpc.call(client, subject, asked, JobPage, timeout_seconds=WATCHED.gateway)


async def _until_watching(cluster: Cluster) -> None:
    """Wait until this replica watches the cluster itself: the one that did may be dead or held up."""
    while cluster.listener is None:  # noqa: ASYNC110 - many requests wait
        await asyncio.sleep(_LOOK_SECONDS)


def _unanswered(error: RpcError) -> bool:
    """Whether no replica answered at all. Errors of the bus say what effect the request had, those of a read do not."""
    return error.kind == "unavailable" and error.effect is not None and not error.internal
