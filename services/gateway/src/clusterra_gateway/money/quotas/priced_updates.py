"""Updates of jobs within the quotas: one that makes a job dearer reserves first, or is refused as a submit would be."""

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_jobs import Update
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.money.quotas.job_list import ListedPrices, changed_by
from clusterra_gateway.money.quotas.records import Reservation
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.money.quotas.sweep import MAX_RESERVATIONS

_COSTLY = frozenset({"memory_per_node", "memory_per_cpu", "tasks"})
"""The fields of `FurtherChanges` on which the cost of a job depends."""
_ATTEMPTS = 3


class PricedUpdates:
    """Updates jobs within the quotas. A job that came past the gateway is counted by the sweep, after the change."""

    def __init__(self, reservations: Reservations, slurm: SlurmRequests, registry: Registry) -> None:
        self._reservations = reservations
        self._slurm = slurm
        self._registry = registry

    async def update(self, ref: ClusterRef, viewer: Viewer, jobs: str, update: Update) -> None:
        """Change a job, and reserve before it what it may cost more, or release after it what it costs less.

        Raises QuotaExceeded, RpcFailed, and Unavailable where others change the same job all the time or a quota cannot
        be read.
        """
        change = await self._reserve(ref, viewer, jobs, update) if _is_costly(update) else None
        try:
            await self._slurm.change(ref, viewer, jobs, update)
        except RpcFailed as failed:
            if change is not None and change[1].micro_usd > change[0].micro_usd and not failed.error.may_have_effect:
                before, grown = change
                await self._reservations.grow(grown, before.micro_usd, force=True)
            raise
        if change is not None and change[1].micro_usd < change[0].micro_usd:
            before, less = change
            await self._reservations.grow(before, less.micro_usd, force=True)

    async def _reserve(
        self, ref: ClusterRef, viewer: Viewer, jobs: str, update: Update
    ) -> tuple[Reservation, Reservation] | None:
        """The reservation before and after; None where the cost stays, or no quota counts the job.

        More is reserved here. Less is not released yet, and only where the change is that of a whole job.
        """
        binding = self._registry.get(ref)
        quotas = await self._reservations.quotas(ref.tenant)
        if binding is None or not (quotas.readable or quotas.unreadable):
            return None
        for _ in range(_ATTEMPTS):
            job = await self._slurm.job(ref, viewer, jobs.partition("_")[0])
            prices = ListedPrices(binding.catalogue)
            now, then = (prices.projected((each,)) or 0 for each in (job, changed_by(job, update)))
            reserved = await self._reservations.of_cluster(ref, MAX_RESERVATIONS)
            before = reserved.of_job(job.het_job_id or job.job_id)
            if before is None or then == now or (then < now and ("_" in jobs or not then)):
                return None
            if then < now:
                return before, before.model_copy(update={"micro_usd": max(before.micro_usd + then - now, then)})
            quotas.counting(before.scopes)
            grown = before.model_copy(update={"micro_usd": before.micro_usd + then - now})
            if await self._reservations.grow(before, grown.micro_usd):
                return before, grown
        raise Unavailable("others change this job at the same time", hint="try again in a moment")


def _is_costly(update: Update) -> bool:
    return update.changes.time_limit is not None or any(
        value is not None for name, value in update.further if name in _COSTLY
    )
