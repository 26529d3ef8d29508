"""Reads jobs where the cluster is watched: the replica that watches it answers from its observation.

Any other replica would have to read all jobs from slurmctld for each request.
"""

import asyncio
from datetime import timedelta

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import Message
from clusterra_contracts.identity import Wire, now
from clusterra_contracts.rpc.deadlines import WATCHED
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import (
    CountJobs,
    FindKey,
    FoundKey,
    JobCounts,
    JobPage,
    ListJobs,
    ListWatched,
    Operation,
)
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.bus import Client
from prometheus_client import Counter

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.query import count_jobs, list_jobs

OWN_CHANGE_SECONDS = 10.0
"""For this time after a change through this replica, the watching one waits for its next poll before it answers."""
ALONE = timedelta(seconds=60)
"""For how long the watching replica is not asked after it did not answer in time. Without the permission to ask, no
replica learns that nobody will answer."""
_LOOK_SECONDS = 0.2

LISTS = Counter(
    "clusterra_proxy_lists_total",
    "Lists and counts of jobs, by who answered: this replica, which watches; the one that watches; or this one, alone",
    ("source",),
)
KEYS = Counter("clusterra_proxy_keys_asked_total", "Looks for an idempotency key that the watching replica answered")


async def list_watched(client: Client, cluster: Cluster, request: ListJobs) -> JobPage:
    """Return one page of jobs, from the replica that watches the cluster if there is one. Raises RpcFailed."""
    page = await _ask(client, cluster, "list-watched", ListWatched(request=request, fresh=_recent(cluster)), JobPage)
    _note(cluster, page)
    return await list_jobs(cluster, request) if page is None else page


async def count_watched(client: Client, cluster: Cluster, asked: CountJobs) -> JobCounts:
    """Count jobs, at the replica that watches the cluster if there is one. Raises RpcFailed."""
    request = asked.model_copy(update={"fresh": _recent(cluster)})
    counts = await _ask(client, cluster, "count-watched", request, JobCounts)
    _note(cluster, counts)
    return await count_jobs(cluster, asked) if counts is None else counts


def _recent(cluster: Cluster) -> bool:
    """Whether a job was changed through this replica so lately that another one may not have seen it."""
    return cluster.changed_at is not None and (now() - cluster.changed_at).total_seconds() < OWN_CHANGE_SECONDS


def _note(cluster: Cluster, answer: Wire | None) -> None:
    own = "slurmctld" if cluster.listener is None else "own-watch"
    LISTS.labels(own if answer is None else "watching-replica").inc()


async def list_here(cluster: Cluster, request: ListWatched) -> JobPage:
    """Return one page of jobs from this replica, which watches the cluster."""
    return await list_jobs(cluster, request.request, fresh=request.fresh)


async def find_watched(client: Client, cluster: Cluster, request: FindKey) -> FoundKey | None:
    """Look for the job of a key where the cluster is watched; None when another replica cannot be asked.

    Raises RpcFailed.
    """
    found = await _ask(client, cluster, "find-key", request, FoundKey)
    if found is not None:
        KEYS.inc()
    return found


async def _ask[T: Wire](
    client: Client, cluster: Cluster, operation: Operation, request: Message, result: type[T]
) -> T | None:
    """Ask the replica that watches the cluster. None: this one watches it, or nobody answers. Raises RpcFailed."""
    alone = cluster.alone_until is not None and now() < cluster.alone_until
    if cluster.listener is not None or alone:
        return None
    subject = subjects.slurm(cluster.ref, operation)
    asking = asyncio.create_task(rpc.call(client, subject, request, result, timeout_seconds=WATCHED.gateway))
    watching = asyncio.create_task(_until_watching(cluster))
    try:
        await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    except rpc.RpcFailed as failed:
        if not _unanswered(failed.error):
            raise
        if failed.error.effect == "unknown":
            cluster.alone_until = now() + ALONE
        return None
    finally:
        asking.cancel()
        watching.cancel()
        await asyncio.gather(asking, watching, return_exceptions=True)


async def _until_watching(cluster: Cluster) -> None:
    """Wait until this replica watches the cluster itself: the one that did may be dead or held up."""
    while cluster.listener is None:  # noqa: ASYNC110 - many requests wait
        await asyncio.sleep(_LOOK_SECONDS)


def _unanswered(error: RpcError) -> bool:
    """Whether no replica answered at all. Errors of the bus say what effect the request had, those of a read do not."""
    return error.kind == "unavailable" and error.effect is not None and not error.internal
