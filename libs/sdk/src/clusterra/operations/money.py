"""Costs, quotas and budgets."""

from collections.abc import Sequence
from datetime import date

from clusterra.exchange import Request, Steps
from clusterra.models import Budget, BudgetList, CostReport, Quota, QuotaList
from clusterra.operations.api import Api, query

MAX_ROWS = 1000


def costs(
    api: Api, by: str | Sequence[str], first: date | None, end: date | None, cluster: str | None
) -> Steps[CostReport]:
    """What jobs and workers cost from a day (UTC) to the day before `end`: at most 1,000 rows."""
    grouped = tuple(by.split(",")) if isinstance(by, str) else tuple(by)
    asked = query({"by": grouped, "from": first, "to": end, "limit": MAX_ROWS})
    return (yield from api.read(CostReport, Request("GET", api.on("costs", cluster), asked)))


def quotas(api: Api) -> Steps[list[Quota]]:
    """The quotas that the caller may see, with what is used of them."""
    return list((yield from api.read(QuotaList, "/v1/quotas")).quotas)


def budgets(api: Api) -> Steps[list[Budget]]:
    """The budgets that the caller may see, with what is used of them."""
    return list((yield from api.read(BudgetList, "/v1/budgets")).budgets)
