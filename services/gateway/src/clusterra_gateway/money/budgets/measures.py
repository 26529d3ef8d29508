"""What the jobs of users, accounts and the tenant cost this month, and will cost by its end, over all clusters."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import batched

import structlog
from clusterra_contracts.events import BudgetMeasure
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.costs import Spending, SpendingRow
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.money.quotas.records import QuotaScope
from clusterra_gateway.money.quotas.sweep import ACTOR

log = structlog.get_logger()

AT_ONCE = 8
"""About how many clusters the ledger is asked at the same time."""


@dataclass
class Measured:
    """The month to date and the forecast of a scope, in micro-USD. None: nothing of it is known.

    `unknown`: the amounts lack a part that is not known. They are that much at least, because costs only add up.
    """

    actual: int | None = 0
    forecast: int | None = 0
    stale: bool = False
    unknown: bool = False
    empty: bool = True

    def add(self, row: SpendingRow) -> None:
        """Add what some jobs, or the overhead, cost."""
        self.actual = self._sum(self.actual, row.month_to_date_micro_usd)
        self.forecast = self._sum(self.forecast, row.forecast_micro_usd)
        self.stale |= row.stale
        self.unknown |= row.unknown
        self.empty = False

    def of(self, measure: BudgetMeasure) -> int | None:
        """One of the two."""
        return self.actual if measure == "actual" else self.forecast

    def _sum(self, before: int | None, more: int | None) -> int | None:
        if self.empty or before is None:
            return more
        return before if more is None else before + more


@dataclass
class Measures:
    """The costs of all scopes of a tenant at a moment."""

    tenant: str
    as_of: datetime
    cut: bool = False
    """Whether there is more than the ledger tells of: users and accounts, or clusters."""
    by_scope: dict[QuotaScope, Measured] = field(default_factory=dict)

    def of(self, scope: QuotaScope) -> Measured:
        """Those of one scope. Without jobs it costs nothing."""
        return self.by_scope.get(scope, Measured(unknown=self.cut))

    def add(self, row: SpendingRow) -> None:
        """Add a row of a cluster. The tenant pays the overhead."""
        scopes = [QuotaScope(kind="tenant", name=self.tenant)]
        if row.user:
            scopes.append(QuotaScope(kind="user", name=row.user))
        if row.account:
            scopes.append(QuotaScope(kind="account", name=row.account))
        for scope in scopes:
            self.by_scope.setdefault(scope, Measured(unknown=self.cut)).add(row)


async def measured(ledger: LedgerRequests, tenant: str, clusters: Iterable[ClusterRef]) -> Measures:
    """Ask the ledger about all clusters of a tenant. Raises RpcFailed where it answers for none.

    Of a cluster for which it does not answer, nothing is known. The others count.
    """
    answers: list[Spending | RpcFailed] = []
    for some in batched(clusters, AT_ONCE):
        answers += await asyncio.gather(*(_spending(ledger, ref) for ref in some))
    found = [each for each in answers if isinstance(each, Spending)]
    failed = [each for each in answers if isinstance(each, RpcFailed)]
    if failed and not found:
        raise failed[0]
    cut = bool(failed) or any(each.cut for each in found)
    measures = Measures(tenant, min((each.as_of for each in found), default=now()), cut=cut)
    for each in found:
        for row in each.rows:
            measures.add(row)
    return measures


async def _spending(ledger: LedgerRequests, ref: ClusterRef) -> Spending | RpcFailed:
    try:
        return await ledger.spending(ref, ACTOR, ("user", "account"))
    except RpcFailed as failed:
        log.warning("spending_not_known", tenant=ref.tenant, cluster=ref.cluster, reason=failed.error.detail)
        return failed
