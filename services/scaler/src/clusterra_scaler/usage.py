"""The cost of a tenant's running jobs.

The replica that gets a request reads the last snapshot of each of the tenant's clusters from the JOB stream. So any
replica can answer for any cluster, no state is maintained between requests, and a takeover loses nothing.
"""

import asyncio
from datetime import datetime

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.topology import JOB
from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.usage import ReadUsage, Usage
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import last
from clusterra_runtime.nats.queue_parts import read_parts
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_scaler.planner.requests.job_costs import JobCosts

SECONDS_PER_HOUR = 3600.0


class UsageReader:
    """Sums over a tenant's clusters. For a cluster whose last snapshot is incomplete its last complete one counts."""

    def __init__(self, client: Client, registry: Registry) -> None:
        self._client = client
        self._registry = registry
        self._last_complete: dict[ClusterRef, QueueSnapshot] = {}
        """The last snapshot with running jobs and nodes of each cluster that a request has asked for."""

    async def read(self, tenant: TenantRef, request: ReadUsage) -> Usage:
        """Return the cost of one user's running jobs, or of all users'. Raises RpcFailed (`unavailable`)."""
        bindings = {ref: binding for ref, binding in self._registry.clusters.items() if ref.tenant == tenant.tenant}
        try:
            snapshots = await asyncio.gather(*(self._snapshot(ref) for ref in bindings))
        except (BusUnavailable, InvalidMessage) as error:
            detail = f"the queue of a cluster cannot be read: {error}"
            raise RpcFailed(RpcError(kind="unavailable", detail=detail, hint="try again in a moment")) from error
        known = [
            (snapshot, binding)
            for snapshot, binding in zip(snapshots, bindings.values(), strict=True)
            if snapshot is not None
        ]
        return usage_of(known, request.uid, now())

    async def _snapshot(self, ref: ClusterRef) -> QueueSnapshot | None:
        found = await last(self._client, JOB.name, subjects.job_partitioned(ref), QueueSnapshot)
        known = self._last_complete.get(ref)
        if found is None or (known is not None and known.generation == found[0].generation):
            return known
        snapshot = await read_parts(self._client, ref, found[0])
        if snapshot is not None and snapshot.running is not None and snapshot.nodes is not None:
            self._last_complete[ref] = snapshot
        return self._last_complete.get(ref)


def usage_of(clusters: list[tuple[QueueSnapshot, ClusterBinding]], uid: int | None, at: datetime) -> Usage:
    """The hourly rate and the cost so far of a user's running jobs at a moment; all users' if `uid` is None."""
    rate = bill = 0.0
    count = 0
    for snapshot, binding in clusters:
        costs = JobCosts(snapshot, binding)
        for job in snapshot.running or ():
            if uid is None or job.uid == uid:
                usd = costs.usd_per_hour(job)
                rate += usd
                bill += usd * max(0.0, (at - job.started_at).total_seconds()) / SECONDS_PER_HOUR
                count += 1
    return Usage(
        burn_rate_usd_per_hour=rate,
        pending_bill_usd=bill,
        running_jobs=count,
        as_of=min((snapshot.taken_at for snapshot, _ in clusters), default=None),
    )
