"""What the jobs of users, accounts and the tenant cost this month, and will cost by its end, over all clusters."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from clusterra_contracts.events import BudgetMeasure
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.costs import SpendingRow

from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.quotas.records import QuotaScope
from clusterra_gateway.quotas.sweep import ACTOR


@dataclass
class Measured:
    """The month to date and the forecast of a scope, in micro-USD. None: a part of it is not known."""

    actual: int | None = 0
    forecast: int | None = 0
    stale: bool = False
    unknown: bool = False

    def add(self, row: SpendingRow) -> None:
        """Add what some jobs, or the overhead, cost. What is known of the month counts, also if some is not."""
        self.actual = _sum(self.actual, row.month_to_date_micro_usd)
        self.forecast = _sum(self.forecast, row.forecast_micro_usd)
        self.stale |= row.stale
        self.unknown |= row.unknown

    def of(self, measure: BudgetMeasure) -> int | None:
        """One of the two."""
        return self.actual if measure == "actual" else self.forecast


@dataclass
class Measures:
    """The costs of all scopes of a tenant at a moment."""

    tenant: str
    as_of: datetime
    cut: bool = False
    """Whether there are more users and accounts than the ledger tells of."""
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
    """Ask the ledger about all clusters of a tenant. Raises RpcFailed."""
    found = [await ledger.spending(ref, ACTOR, ("user", "account")) for ref in clusters]
    measures = Measures(tenant, min((each.as_of for each in found), default=now()), cut=any(each.cut for each in found))
    for each in found:
        for row in each.rows:
            measures.add(row)
    return measures


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more
