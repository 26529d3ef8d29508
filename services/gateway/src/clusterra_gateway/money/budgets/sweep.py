"""Looks whether budgets have crossed thresholds, and tells each crossing once.

The mark of a crossing and its event are one conditional write. So however many workers look, and whenever one of them
dies, a threshold is told once a month.
"""

from hashlib import sha256

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.events import BudgetFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.store import ConditionFailed, Put, StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.admin_events import MAX_TOLD_AT_ONCE, SERVICE
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, budget_alert_key
from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.money.budgets.measures import measured
from clusterra_gateway.money.budgets.records import Alert, Budget, Threshold, alert_name, alerts_of, budgets_of
from clusterra_gateway.money.quotas.records import subject_of
from clusterra_gateway.money.quotas.reservations import USE_SECONDS, month_of

log = structlog.get_logger()

INTERVAL_SECONDS = 15.0
BOUNDS = Bounds(at_once=4)


class BudgetSweep:
    """Looks at the budgets of all tenants every few seconds. Every worker does so."""

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
        messages = []
        for ref in clusters[:MAX_TOLD_AT_ONCE]:
            event = event_of(SERVICE, ref, fact, version=version, time=at)
            messages.append(OutboxMessage.of(event.id, subjects.event(ref, fact.kind), event))
        key = budget_alert_key(clusters[0].tenant, name)
        put = Put(ACCOUNTS, key, alert.attributes(), Absent(), int(at.timestamp()) + USE_SECONDS)
        try:
            await self._directory.outbox.write(put, messages)
        except ConditionFailed:
            return  # another worker told it
        log.info("budget_threshold_crossed", budget=str(budget.scope), threshold=str(threshold), month=month)
