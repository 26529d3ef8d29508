"""Budgets, and the thresholds that were crossed, as models of items of the accounts table."""

from typing import Annotated

from clusterra_contracts.events import BudgetMeasure
from clusterra_contracts.identity import Moment
from clusterra_runtime.store.page import Prefix
from clusterra_runtime.store.store import Store
from pydantic import BaseModel, ConfigDict, Field

from clusterra_gateway.accounts.keyspace import ACCOUNTS, budget_alerts_partition, budgets_partition
from clusterra_gateway.accounts.records import Record
from clusterra_gateway.money.quotas.records import MAX_MICRO_USD, MonthlyLimit, QuotaScope

MAX_BUDGETS = 1000
"""The most budgets of one tenant."""
MAX_THRESHOLDS = 10


class Threshold(BaseModel):
    """A part of a budget, in percent, of what was used (`actual`) or of the forecast of the month."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measure: BudgetMeasure
    percent: Annotated[int, Field(ge=1, le=1000)]

    def __str__(self) -> str:
        return f"{self.measure}#{self.percent:04d}"


class Budget(MonthlyLimit):
    """What a month should cost."""

    limit_micro_usd: Annotated[int, Field(ge=1, le=MAX_MICRO_USD)]
    thresholds: tuple[Threshold, ...]

    def crossed(self, threshold: Threshold, micro_usd: int | None) -> bool:
        """Whether what is known of an amount has reached a threshold."""
        return micro_usd is not None and micro_usd * 100 >= self.limit_micro_usd * threshold.percent


class Alert(Record):
    """A threshold was crossed. Its key says which one, in which month; so there is one for each of them."""

    micro_usd: int
    """The amount that crossed it."""
    limit_micro_usd: int
    crossed_at: Moment


async def budgets_of(store: Store, tenant: str) -> tuple[Budget, ...]:
    """The budgets of a tenant that can be read. The others are logged. Raises StoreUnavailable."""
    page = await store.query(ACCOUNTS, budgets_partition(tenant), limit=MAX_BUDGETS)
    return tuple(budget for item in page.items if (budget := Budget.readable(item)) is not None)


async def alerts_of(store: Store, tenant: str, month: str) -> dict[str, Alert]:
    """The thresholds of a tenant's budgets that were crossed in a month, by `alert_name`. Raises StoreUnavailable.

    Those that cannot be read are logged.
    """
    page = await store.query(
        ACCOUNTS, budget_alerts_partition(tenant), sort=Prefix(f"{month}#"), limit=MAX_BUDGETS * MAX_THRESHOLDS
    )
    return {item.key.sk: alert for item in page.items if (alert := Alert.readable(item)) is not None}


def alert_name(month: str, scope: QuotaScope, threshold: Threshold) -> str:
    """The sort key of an alert."""
    return f"{month}#{scope}#{threshold}"
