"""What running jobs cost now, from the last snapshot of each cluster.

Every replica hears all snapshots, whoever decides on them, so that any of them can answer for a whole tenant.
"""

from datetime import datetime

from clusterra_contracts import subjects
from clusterra_contracts.envelope import InvalidMessage
from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_contracts.queue import QueueSnapshot, RunningJob
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.subjects import Subject
from clusterra_contracts.topology import JOB
from clusterra_contracts.usage_rpc import ReadUsage, Usage
from clusterra_runtime.client import BusUnavailable, Client
from clusterra_runtime.direct import last
from clusterra_runtime.registry import Registry

SECONDS_PER_HOUR = 3600.0


class Usages:
    """Keeps the last snapshot of every cluster, and adds up."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._snapshots: dict[ClusterRef, QueueSnapshot] = {}

    async def on_snapshot(self, subject: Subject, snapshot: QueueSnapshot) -> None:
        """Keep a snapshot, unless a newer one is known or it has no opinion on what runs."""
        known = self._snapshots.get(subject.ref)
        if snapshot.running is not None and (known is None or known.generation < snapshot.generation):
            self._snapshots[subject.ref] = snapshot

    async def recall(self, client: Client) -> None:
        """Take the snapshots that were published before this process listened."""
        for ref in tuple(self._registry.clusters):
            try:
                found = await last(client, JOB.name, subjects.job_partitioned(ref), QueueSnapshot)
            except (BusUnavailable, InvalidMessage):
                continue  # the next one is at most a few seconds away
            if found is not None:
                await self.on_snapshot(Subject("job.pending", ref), found[0])

    async def read(self, tenant: TenantRef, request: ReadUsage) -> Usage:
        """Of a user, or of all users of the tenant."""
        rate, bill, jobs = 0.0, 0.0, 0
        oldest: datetime | None = None
        moment = now()
        for ref, binding in self._registry.clusters.items():
            snapshot = self._snapshots.get(ref)
            if ref.tenant != tenant.tenant or snapshot is None:
                continue
            oldest = min(oldest, snapshot.taken_at) if oldest else snapshot.taken_at
            for job in snapshot.running or ():
                if request.uid is None or job.uid == request.uid:
                    hourly = usd_per_hour(job, snapshot, binding)
                    rate += hourly
                    bill += hourly * max(0.0, (moment - job.started_at).total_seconds()) / SECONDS_PER_HOUR
                    jobs += 1
        return Usage(burn_rate_usd_per_hour=rate, pending_bill_usd=bill, running_jobs=jobs, as_of=oldest)


def usd_per_hour(job: RunningJob, snapshot: QueueSnapshot, binding: ClusterBinding) -> float:
    """A job's part of the price of its nodes, by CPU; a node of no known shape costs nothing here."""
    prices = {shape.name: shape.usd_per_hour for shape in binding.catalogue.shapes}
    nodes = {node.name: node for node in snapshot.nodes or ()}
    total = 0.0
    for name in job.nodes:
        node = nodes.get(name)
        price = next((prices[feature] for feature in node.features if feature in prices), 0.0) if node else 0.0
        if node and price:
            total += price * min(1.0, job.cpus / len(job.nodes) / node.cpus)
    return total
