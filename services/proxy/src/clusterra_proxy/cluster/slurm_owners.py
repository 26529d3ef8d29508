"""Which cluster a Slurm belongs to: two tenants that are bound to one Slurm would see and end each other's jobs.

Slurm tells who it is with each ping: its ClusterName, and the host names of its controllers. These repeat between
installations that were made alike, but their keys do not. So name, hosts and key together identify a Slurm. It belongs
to the cluster that was bound to it first, and to others of the same tenant. Those of other tenants are set aside: no
token is minted for them. Each replica finds the same out for itself, because the bindings say since when they hold.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.backoff import Backoff

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import SlurmFailed

log = structlog.get_logger(__name__)

AGAIN_SECONDS = 60.0
"""How often Slurm is asked again who it is: another one may answer at its address."""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 15.0
FIRST_SECONDS = 2.0
"""How long a cluster waits for the first answer before it is served without."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Bound:
    cluster: Cluster
    identity: str

    @property
    def seniority(self) -> tuple[datetime, str]:
        """Orders the clusters of one Slurm, the first one first. Releases before this one told no time."""
        return self.cluster.binding.bound_at or _LONG_AGO, str(self.cluster.ref)


class SlurmOwners:
    """Which Slurm each served cluster turned out to have, in this process."""

    def __init__(self) -> None:
        self._bound: dict[ClusterRef, _Bound] = {}

    async def keep(self, cluster: Cluster, asked: asyncio.Event) -> None:
        """Ask a cluster's Slurm who it is, forever, and set aside whoever it does not belong to.

        `asked` is set after the first answer, or when there was none.
        """
        before = self._bound.get(cluster.ref)
        if before is not None and before.cluster.binding.slurmrestd_url == cluster.binding.slurmrestd_url:
            # A changed policy makes nobody wait, and lets nobody in for a moment.
            self._found(_Bound(cluster, before.identity))
        else:
            self.forget(cluster.ref)
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        while True:
            try:
                identity = await cluster.slurm_identity()
            except SlurmFailed:
                # What is wrong is told by those who need an answer.
                asked.set()
                await backoff.pause()
                continue
            backoff.succeeded()
            self._found(_Bound(cluster, identity))
            asked.set()
            await asyncio.sleep(AGAIN_SECONDS)

    def forget(self, ref: ClusterRef) -> None:
        """Leave a Slurm to others: the cluster is gone, or bound to another address."""
        before = self._bound.pop(ref, None)
        if before is not None:
            self._decide(before.identity)

    def _found(self, bound: _Bound) -> None:
        before = self._bound.get(bound.cluster.ref)
        self._bound[bound.cluster.ref] = bound
        if before is not None and before.identity != bound.identity:
            self._decide(before.identity)
        self._decide(bound.identity)

    def _decide(self, identity: str) -> None:
        sharing = sorted((each for each in self._bound.values() if each.identity == identity), key=_seniority)
        for each in sharing:
            first = sharing[0].cluster.ref
            if each.cluster.ref.tenant == first.tenant:
                each.cluster.take_back()
                continue
            if not each.cluster.mint.set_aside:
                log.error("slurm_of_another_tenant", set_aside=str(each.cluster.ref), belongs_to=str(first))
            each.cluster.set_aside()


def _seniority(bound: _Bound) -> tuple[datetime, str]:
    return bound.seniority
