"""Stands in for the events service: the archive of a cluster's events, its ledger of costs, and its webhooks."""

from collections.abc import Awaitable
from dataclasses import dataclass, field

from answering import rpc_failure
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_contracts.rpc.costs import (
    CostOfJob,
    CostPage,
    CostRow,
    JobCost,
    JobCosts,
    ReadCosts,
    ReadJobCost,
    ReadJobCosts,
    ReadRunCosts,
    ReadSpending,
    RunCosts,
    Spending,
    SpendingRow,
)
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory, ReadTenantHistory
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import serve, serve_tenant
from nats.aio.subscription import Subscription
from proxy_stand_in import ProxyStandIn
from webhooks_stand_in import WebhooksStandIn


@dataclass
class EventsStandIn:
    """The test adds events and costs. Costs of a job are answered to who sees the job at the proxy."""

    proxy: ProxyStandIn
    archived: list[Event] = field(default_factory=list)
    histories: list[ReadHistory] = field(default_factory=list)
    tenant_histories: list[ReadTenantHistory] = field(default_factory=list)
    history_fails_after: int | None = None
    """The number of pages of the archive that are answered before it fails."""
    archive_position: int | None = None
    costs: list[CostRow] = field(default_factory=list)
    cost_reads: list[ReadCosts] = field(default_factory=list)
    costs_fail_after: int | None = None
    """The number of pages of costs that are answered before the ledger fails."""
    job_costs: dict[str, JobCost] = field(default_factory=dict)
    list_costs: list[CostOfJob] = field(default_factory=list)
    list_cost_reads: list[ReadJobCosts] = field(default_factory=list)
    run_costs: dict[str, RunCosts] = field(default_factory=dict)
    spending: list[SpendingRow] = field(default_factory=list)
    """What the ledger answers, whatever it is asked for."""
    webhooks: WebhooksStandIn = field(default_factory=WebhooksStandIn)

    def served(self, client: Client, ref: ClusterRef) -> tuple[Awaitable[Subscription], ...]:
        ledger = f"ledger.{ref.tenant}.{ref.cluster}"
        return (
            serve(client, f"history.{ref.tenant}.{ref.cluster}", ReadHistory, self._history),
            serve_tenant(client, f"tenant-history.{ref.tenant}", ReadTenantHistory, self._tenant_history),
            serve(client, f"{ledger}.costs", ReadCosts, self._costs),
            serve(client, f"{ledger}.job", ReadJobCost, self._job_cost),
            serve(client, f"{ledger}.jobs", ReadJobCosts, self._list_costs),
            serve(client, f"{ledger}.runs", ReadRunCosts, self._run_costs),
            serve(client, f"{ledger}.spending", ReadSpending, self._spend),
            *self.webhooks.served(client, ref.tenant),
        )

    async def _history(self, _subject: Subject, request: ReadHistory) -> HistoryPage:
        if self.history_fails_after is not None and len(self.histories) >= self.history_fails_after:
            raise rpc_failure("unavailable", "the archive does not answer")
        self.histories.append(request)
        begin = int(request.cursor) if request.cursor is not None and request.cursor.isdigit() else 0
        end = begin + request.limit
        page = tuple(self.archived[begin:end])
        cursor = str(end) if end < len(self.archived) else None
        return HistoryPage(events=page, cursor=cursor, position=self.archive_position)

    async def _tenant_history(self, tenant: TenantRef, request: ReadTenantHistory) -> HistoryPage:
        self.tenant_histories.append(request)
        ref = ClusterRef(tenant=tenant.tenant, cluster=request.clusters[0])
        return await self._history(Subject("history", ref), request.read)

    async def _costs(self, _subject: Subject, request: ReadCosts) -> CostPage:
        """Rows in pages of two."""
        self.cost_reads.append(request)
        begin = int(request.cursor) if request.cursor is not None and request.cursor.isdecimal() else 0
        if self.costs_fail_after is not None and begin // 2 >= self.costs_fail_after:
            raise rpc_failure("unavailable", "the ledger does not answer")
        shares = sum(row.micro_usd or 0 for row in self.costs if row.purpose == "job")
        return CostPage(
            rows=tuple(self.costs[begin : begin + 2]),
            shares_micro_usd=shares,
            overhead_micro_usd=sum(row.micro_usd or 0 for row in self.costs) - shares,
            as_of=now(),
            cursor=str(begin + 2) if begin + 2 < len(self.costs) else None,
        )

    async def _job_cost(self, _subject: Subject, request: ReadJobCost) -> JobCost:
        self.proxy.visible(request.viewer, request.job_id)
        return self.job_costs.get(request.job_id, JobCost(runs=0, micro_usd=0, as_of=now()))

    async def _list_costs(self, _subject: Subject, request: ReadJobCosts) -> JobCosts:
        self.list_cost_reads.append(request)
        return JobCosts(costs=tuple(cost for cost in self.list_costs if cost.job_id in request.job_ids))

    async def _run_costs(self, _subject: Subject, request: ReadRunCosts) -> RunCosts:
        self.proxy.visible(request.viewer, request.job_id)
        return self.run_costs.get(request.job_id, RunCosts(job=JobCost(runs=0, micro_usd=0, as_of=now()), runs=()))

    async def _spend(self, _subject: Subject, request: ReadSpending) -> Spending:
        seen = [row for row in self.spending if row.purpose == "job" and request.viewer.sees(row.uid)]
        if request.viewer.only_uid is None:
            seen = self.spending
        return Spending(rows=tuple(seen), as_of=now())
