"""What runs, waits and has run costs, put together from the ledger, the queue and several clusters."""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.costs import Spending, SpendingDimension, SpendingRow
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.money.quotas.jobs import ListedPrices, job_pages, task_count

log = structlog.get_logger()

SummaryDimension = Literal["user", "account", "cluster", "tenant"]
Purpose = Literal["job", "overhead", "bill"]

MAX_JOBS = 5000
"""The most waiting jobs that a request prices. What the jobs of a longer queue will cost is unknown."""


class Payer(NamedTuple):
    """Whose cost it is: of the jobs of a user or an account, the overhead, or the bill of a cluster or tenant."""

    purpose: Purpose
    name: str = ""


@dataclass
class Totals:
    """Sums in micro-USD. None: nothing of it is known."""

    burn_rate: int | None = 0
    pending_bill: int | None = 0
    month_to_date: int | None = 0
    forecast: int | None = 0
    queued: int | None = 0
    """What the waiting jobs will cost at most. One that has no bound makes it None."""
    running_jobs: int = 0
    stale: bool = False
    unknown: bool = False
    empty: bool = True

    def add(self, row: SpendingRow) -> None:
        """Add what the ledger knows of some jobs, or of the overhead."""
        self.burn_rate = self._sum(self.burn_rate, row.burn_rate_micro_usd_per_hour)
        self.pending_bill = self._sum(self.pending_bill, row.pending_bill_micro_usd)
        self.month_to_date = self._sum(self.month_to_date, row.month_to_date_micro_usd)
        self.forecast = self._sum(self.forecast, row.forecast_micro_usd)
        self.running_jobs += row.running_jobs
        self.stale |= row.stale
        self.unknown |= row.unknown
        self.empty = False

    def miss(self, clusters: Collection[str]) -> None:
        """Note that what some clusters cost is not known."""
        self.unknown |= bool(clusters)
        if clusters and self.empty:
            self.burn_rate = self.pending_bill = self.month_to_date = self.forecast = None

    def queue(self, micro_usd: int | None) -> None:
        """Add what some waiting jobs will cost at most."""
        self.queued = None if self.queued is None or micro_usd is None else self.queued + micro_usd

    def _sum(self, before: int | None, more: int | None) -> int | None:
        """A sum is known as soon as one of its parts is."""
        if self.empty or before is None:
            return more
        return before if more is None else before + more


class ClusterSpending(NamedTuple):
    """What a viewer sees of one cluster."""

    ref: ClusterRef
    spending: Spending | RpcFailed
    """Why the ledger does not answer, if it does not."""
    queue: dict[tuple[str, str], int | None] | None
    """By user and account what their waiting jobs will cost at most; None when Slurm does not say."""

    @property
    def cut(self) -> bool:
        """Whether there are more rows than these."""
        return isinstance(self.spending, RpcFailed) or self.spending.cut

    @property
    def rows(self) -> tuple[SpendingRow, ...]:
        """What the ledger tells."""
        return () if isinstance(self.spending, RpcFailed) else self.spending.rows


async def spending_of(
    ledger: LedgerRequests, ref: ClusterRef, viewer: Viewer, by: tuple[SpendingDimension, ...]
) -> Spending | RpcFailed:
    """What the ledger tells of a cluster, or why it does not answer."""
    try:
        return await ledger.spending(ref, viewer, by)
    except RpcFailed as failed:
        log.warning("spending_not_known", tenant=ref.tenant, cluster=ref.cluster, reason=failed.error.detail)
        return failed


def answered(clusters: Iterable[Spending | RpcFailed]) -> list[Spending]:
    """What the ledger tells of those clusters for which it answers. Raises RpcFailed where it answers for none."""
    known, failed = list[Spending](), list[RpcFailed]()
    for each in clusters:
        failed.append(each) if isinstance(each, RpcFailed) else known.append(each)
    if failed and not known:
        raise failed[0]
    return known


class SpendingReads:
    """Reads the spending of clusters."""

    def __init__(self, ledger: LedgerRequests, slurm: SlurmRequests) -> None:
        self._ledger = ledger
        self._slurm = slurm

    async def read(
        self, ref: ClusterRef, binding: ClusterBinding, viewer: Viewer, by: SummaryDimension
    ) -> ClusterSpending:
        """What a viewer sees of one cluster."""
        dimensions: tuple[SpendingDimension, ...] = (by,) if by in ("user", "account") else ()
        found = await spending_of(self._ledger, ref, viewer, dimensions)
        return ClusterSpending(ref, found, await self._queue(ref, binding, viewer))

    async def _queue(
        self, ref: ClusterRef, binding: ClusterBinding, viewer: Viewer
    ) -> dict[tuple[str, str], int | None] | None:
        sums: dict[tuple[str, str], int | None] = {}
        prices = ListedPrices(binding.catalogue)
        counted = 0
        try:
            async for page in job_pages(self._slurm, ref, viewer, ("PENDING",)):
                counted += len(page)
                if counted > MAX_JOBS:
                    return None
                await asyncio.to_thread(_price, page, prices, sums)
        except RpcFailed as failed:
            log.info("queue_not_priced", tenant=ref.tenant, cluster=ref.cluster, reason=failed.error.detail)
            return None
        return sums


def _price(jobs: Iterable[Job], prices: ListedPrices, sums: dict[tuple[str, str], int | None]) -> None:
    """Add, by user and account, what waiting jobs will cost at most; None where one has no bound."""
    for job in jobs:
        payer = job.user, job.account
        before = sums.get(payer, 0)
        cost = prices.micro_usd(job, task_count(job.array_tasks))
        sums[payer] = None if before is None or cost is None else before + cost


def totals_by(clusters: Collection[ClusterSpending], by: SummaryDimension, *, whole_bill: bool) -> dict[Payer, Totals]:
    """Put clusters together. `whole_bill`: the viewer sees everybody's jobs and the overhead."""
    found: dict[Payer, Totals] = {}
    for cluster in clusters:
        of_cluster = Payer(
            "bill" if whole_bill else "job", cluster.ref.cluster if by == "cluster" else cluster.ref.tenant
        )
        if by in ("cluster", "tenant"):
            found.setdefault(of_cluster, Totals())
        for row in cluster.rows:
            payer = of_cluster
            if by in ("user", "account"):
                name = row.user if by == "user" else row.account
                payer = Payer("overhead") if row.purpose == "overhead" else Payer("job", name)
            found.setdefault(payer, Totals()).add(row)
        for payer, cost in _queued(cluster, by, of_cluster):
            found.setdefault(payer, Totals()).queue(cost)
    silent = any(cluster.queue is None for cluster in clusters)
    unknown = {cluster.ref.cluster for cluster in clusters if isinstance(cluster.spending, RpcFailed)}
    for payer, totals in found.items():
        totals.miss(unknown if by != "cluster" else unknown & {payer.name})
        if silent and by in ("user", "account", "tenant") and payer.purpose != "overhead":
            totals.queued = None
    return found


def _queued(cluster: ClusterSpending, by: SummaryDimension, of_cluster: Payer) -> Iterator[tuple[Payer, int | None]]:
    if cluster.queue is None:
        if by == "cluster":
            yield of_cluster, None
        return
    for (user, account), cost in cluster.queue.items():
        yield Payer("job", user if by == "user" else account) if by in ("user", "account") else of_cluster, cost
