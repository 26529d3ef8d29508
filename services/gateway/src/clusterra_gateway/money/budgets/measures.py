"""What the jobs of users, accounts and the tenant cost this month, and will cost by its end, over all clusters."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import batched

from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.costs import Spending, SpendingRow
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.money.costs.spending import Totals, answered, spending_of
from clusterra_gateway.money.quotas.records import QuotaScope
from clusterra_gateway.money.quotas.sweep import ACTOR

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
