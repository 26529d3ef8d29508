"""What a user's, or all users', jobs cost now, this month and probably by its end, over all clusters of a tenant."""

from collections.abc import Mapping

from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.usage import ReadUsage, Usage

from clusterra_events.ledger.spending import OVERHEAD, ClusterSums, SpendingReader, Sums


class UsageReader:
    """The handler of `usage.<tenant>`. Raises StoreUnavailable."""

    def __init__(self, spending: SpendingReader, clusters: Mapping[ClusterRef, ClusterBinding]) -> None:
        self._spending = spending
        self._clusters = clusters

    async def read(self, tenant: TenantRef, request: ReadUsage) -> Usage:
        """The spending of one user, or of all."""
        # The registry may change meanwhile.
        bindings = [(ref, each) for ref, each in self._clusters.items() if ref.tenant == tenant.tenant]
        clusters, total, jobs = list[ClusterSums](), Sums(), 0
        for ref, binding in bindings:
            of_cluster = await self._spending.of_cluster(ref)
            own = request.uid if binding.identity_source is None else request.mapped.get(binding.identity_source)
            clusters.append(of_cluster)
            running: set[str] = set()
            for payer, sums in of_cluster.by_payer.items():
                if payer != OVERHEAD and (request.uid is None or payer.uid == own):
                    total.join(sums)
                    running |= sums.running
            # Two clusters may have a job of the same id.
            jobs += len(running)
        return Usage(
            burn_rate_usd_per_hour=total.rate.known / 1_000_000,
            pending_bill_usd=total.pending.known / 1_000_000,
            running_jobs=jobs,
            as_of=min((each.as_of for each in clusters), default=None),
            burn_rate_micro_usd_per_hour=total.rate.micro_usd,
            pending_bill_micro_usd=total.pending.micro_usd,
            month_to_date_micro_usd=total.month.micro_usd,
            forecast_micro_usd=total.forecast,
            stale=total.stale,
            unknown=total.unknown,
        )
