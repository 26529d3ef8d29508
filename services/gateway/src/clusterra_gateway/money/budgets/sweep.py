"""Looks whether budgets have crossed thresholds, and tells each crossing once.

The mark of a crossing and its event are one conditional write. So however many replicas look, and whenever one of them
dies, a threshold is told once a month.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import batched

import structlog
from clusterra_contracts.events import BudgetFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.costs import Spending, SpendingRow
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.store import ConditionFailed, Put, StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.admin_events import MAX_TOLD_AT_ONCE, cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, budget_alert_key
from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.money.budgets.records import Alert, Budget, Threshold, alert_name, alerts_of, budgets_of
from clusterra_gateway.money.costs.spending import Totals, answered, spending_of
from clusterra_gateway.money.quotas.records import QuotaScope, month_of, subject_of
from clusterra_gateway.money.quotas.reservations import USE_SECONDS
from clusterra_gateway.money.quotas.sweep import ACTOR

log = structlog.get_logger()

INTERVAL_SECONDS = 15.0
BOUNDS = Bounds(at_once=4)
AT_ONCE = 8
"""About how many clusters the ledger is asked at the same time."""


@dataclass
class Measures:
    """The costs of all scopes of a tenant at a moment."""

    tenant: str
    as_of: datetime
    cut: bool = False
    """Whether there is more than the ledger tells of: users and accounts, or clusters."""
    by_scope: dict[QuotaScope, Totals] = field(default_factory=dict)

    def of(self, scope: QuotaScope) -> Totals:
        """Those of one scope. Without jobs it costs nothing."""
        return self.by_scope.get(scope, Totals(unknown=self.cut))

    def add(self, row: SpendingRow) -> None:
        """Add a row of a cluster. The tenant pays the overhead."""
        scopes = [QuotaScope(kind="tenant", name=self.tenant)]
        if row.user:
            scopes.append(QuotaScope(kind="user", name=row.user))
        if row.account:
            scopes.append(QuotaScope(kind="account", name=row.account))
        for scope in scopes:
            self.by_scope.setdefault(scope, Totals(unknown=self.cut)).add(row)


async def measured(ledger: LedgerRequests, tenant: str, clusters: Iterable[ClusterRef]) -> Measures:
    """Ask the ledger about all clusters of a tenant. Raises RpcFailed where it answers for none.

    Of a cluster for which it does not answer, nothing is known. The others count.
    """
    answers: list[Spending | RpcFailed] = []
    for some in batched(clusters, AT_ONCE):
        answers += await asyncio.gather(*(spending_of(ledger, ref, ACTOR, ("user", "account")) for ref in some))
    found = answered(answers)
    cut = len(found) < len(answers) or any(each.cut for each in found)
    measures = Measures(tenant, min((each.as_of for each in found), default=now()), cut=cut)
    for each in found:
        for row in each.rows:
            measures.add(row)
    return measures


class BudgetSweep:
    """Looks at the budgets of all tenants every few seconds. Every replica does so."""

    def __init__(self, directory: Directory, ledger: LedgerRequests, registry: Registry) -> None:
        self._directory = directory
        self._ledger = ledger
        self._registry = registry

    def sweeper(self) -> Sweeper[str]:
        """Looks at the budgets of some tenants at a time."""
        sweep = Sweep("budgets", self._tenants, self.sweep, Place, (StoreError, RpcFailed))
        return Sweeper(sweep, Pace(INTERVAL_SECONDS), BOUNDS)

    async def _tenants(self) -> set[str]:
        return {ref.tenant for ref in self._registry.clusters}

    async def sweep(self, tenant: str) -> None:
        """Look at the budgets of one tenant once. Raises StoreError, RpcFailed."""
        budgets = await budgets_of(self._directory.store, tenant)
        if not budgets:
            return
        clusters = sorted((ref for ref in self._registry.clusters if ref.tenant == tenant), key=lambda ref: ref.key)
        measures = await measured(self._ledger, tenant, clusters)
        month = month_of(measures.as_of)
        told = await alerts_of(self._directory.store, tenant, month)
        for budget in budgets:
            costs = measures.of(budget.scope)
            for threshold in budget.thresholds:
                amount = costs.month_to_date if threshold.measure == "actual" else costs.forecast
                if amount is None or not budget.crossed(threshold, amount):
                    continue
                if alert_name(month, budget.scope, threshold) not in told:
                    await self._tell(clusters, month, budget, threshold, amount)

    async def _tell(
        self, clusters: list[ClusterRef], month: str, budget: Budget, threshold: Threshold, micro_usd: int
    ) -> None:
        at, name = now(), alert_name(month, budget.scope, threshold)
        alert = Alert(micro_usd=micro_usd, limit_micro_usd=budget.limit_micro_usd, crossed_at=at)
        fact = BudgetFact(
            subject=subject_of(budget.scope),
            scope=budget.scope.kind,
            name=budget.scope.name,
            month=month,
            measure=threshold.measure,
            percent=threshold.percent,
            limit_micro_usd=budget.limit_micro_usd,
            micro_usd=micro_usd,
        )
        version = sha256(name.encode()).hexdigest()[:16]
        messages = [cluster_event(ref, fact, version=version, at=at) for ref in clusters[:MAX_TOLD_AT_ONCE]]
        key = budget_alert_key(clusters[0].tenant, name)
        put = Put(ACCOUNTS, key, alert.attributes(), Absent(), int(at.timestamp()) + USE_SECONDS)
        try:
            await self._directory.outbox.write(put, messages)
        except ConditionFailed:
            return  # another replica told it
        log.info("budget_threshold_crossed", budget=str(budget.scope), threshold=str(threshold), month=month)
