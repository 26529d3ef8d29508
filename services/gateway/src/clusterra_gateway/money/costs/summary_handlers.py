"""The routes of what costs are now and will be: burn rate, pending bill, month to date and forecast."""

import asyncio
from collections.abc import Sequence

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, Moment, now
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.http.answers.responses import Money, ResponseBody, json_response, money
from clusterra_gateway.http.requests.errors import Forbidden, NotFound
from clusterra_gateway.http.requests.parameters import Query, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, caller_routes, cluster_routes
from clusterra_gateway.money.costs.spending import (
    ClusterSpending,
    Payer,
    Purpose,
    SpendingReads,
    SummaryDimension,
    Totals,
    answered,
    totals_by,
)

AT_ONCE = 8
"""How many clusters of a tenant are read at the same time."""

of_cluster = cluster_routes(reads=Needs("jobs:read"))
api = caller_routes(reads=Needs("jobs:read"))


class SummaryQuery(Query):
    """What rows are told apart by."""

    by: SummaryDimension = "user"


class SummaryRow(ResponseBody):
    """What jobs, or the overhead of workers, cost. An amount is null while nothing of it is known."""

    purpose: Purpose
    """`job`: of jobs. `overhead`: of workers that boot or are idle. `bill`: both."""
    name: str | None
    """The user, the account, the cluster or the tenant; null for overhead."""
    running_jobs: int
    burn_rate_per_hour: Money | None
    """What runs now costs in an hour."""
    pending_bill: Money | None
    """What the running jobs cost so far."""
    queued: Money | None
    """What the waiting jobs will cost at most; null where one has no time limit, or Slurm does not tell."""
    month_to_date: Money | None
    """What was used since the month began (UTC)."""
    forecast: Money | None
    """The month to date, and what now runs until its known end or that of the month."""
    stale: bool
    """Whether the edge has not confirmed a price for 90 s. The last one counts."""
    unknown: bool
    """Whether some price is unknown, or what some cluster cost. The amounts do not contain it."""
    as_of: Moment
    """Until when costs are counted."""


class CostSummary(ResponseBody):
    """The rows with the highest month to date come first."""

    rows: tuple[SummaryRow, ...]
    as_of: Moment
    complete: bool
    """Whether these are all rows, with what all clusters cost."""


class Summaries:
    """The handlers of the summaries."""

    def __init__(self, access: Access, registry: Registry, ledger: LedgerRequests, slurm: SlurmRequests) -> None:
        self._access = access
        self._registry = registry
        self._reads = SpendingReads(ledger, slurm)

    @of_cluster.get("costs_summary", f"{CLUSTER}/costs/summary", query=SummaryQuery, result=CostSummary)
    async def of_cluster(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns the burn rate, the pending bill, the queue's cost, the month to date and the forecast of a cluster.

        In rows by user, account, cluster or tenant. Members see what their own jobs cost. Whoever sees everybody's jobs
        sees all rows and the overhead. What is not known is null, never zero.
        """
        by = query(request, SummaryQuery).by
        found = await self._read(caller, ref, by)
        return json_response(await asyncio.to_thread(_summary, [found], by, caller))

    @api.get("costs_of_tenant", "/v1/cost-summary", query=SummaryQuery, result=CostSummary)
    async def of_tenant(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns the same over all clusters of the tenant on which the caller is somebody.

        Where the ledger does not answer for some cluster, the amounts lack what it cost: the rows are `unknown`.
        """
        by = query(request, SummaryQuery).by
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(ref: ClusterRef) -> tuple[Caller, ClusterSpending] | None:
            async with turns:
                try:
                    there = await self._access.seen_by(ref, caller)
                    return there, await self._read(there, ref, by)
                except (Forbidden, NotFound):  # nobody there, or it was deleted just now
                    return None

        refs = [ref for ref in self._registry.clusters if ref.tenant == caller.member.tenant]
        found = [each for each in await asyncio.gather(*map(one, refs)) if each is not None]
        sees_all = all(there.sees_everybody for there, _ in found)
        clusters = [spending for _, spending in found]
        return json_response(await asyncio.to_thread(_summary, clusters, by, caller, sees_all=sees_all))

    async def _read(self, caller: Caller, ref: ClusterRef, by: SummaryDimension) -> ClusterSpending:
        binding = self._registry.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        return await self._reads.read(ref, binding, caller.viewer, by)


def _summary(
    clusters: Sequence[ClusterSpending], by: SummaryDimension, caller: Caller, *, sees_all: bool | None = None
) -> CostSummary:
    """The rows of these clusters. Raises RpcFailed where the ledger answers for none of them."""
    whole_bill = caller.sees_everybody if sees_all is None else sees_all
    as_of = min((each.as_of for each in answered(each.spending for each in clusters)), default=now())
    totals = totals_by(clusters, by, whole_bill=whole_bill)
    ordered = sorted(totals.items(), key=lambda entry: (-(entry[1].month_to_date or 0), entry[0]))
    return CostSummary(
        rows=tuple(_row(payer, each, as_of) for payer, each in ordered),
        as_of=as_of,
        complete=not any(each.cut for each in clusters),
    )


def _row(payer: Payer, totals: Totals, as_of: Moment) -> SummaryRow:
    return SummaryRow.showing(
        totals,
        purpose=payer.purpose,
        name=payer.name or None,
        burn_rate_per_hour=money(totals.burn_rate),
        pending_bill=money(totals.pending_bill),
        queued=money(totals.queued),
        month_to_date=money(totals.month_to_date),
        forecast=money(totals.forecast),
        as_of=as_of,
    )
