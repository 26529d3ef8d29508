"""The routes of budgets: admins set them and see all; others see their own and the tenant's."""

from collections.abc import Sequence
from typing import Annotated

from aiohttp import web
from clusterra_contracts.events import BudgetMeasure
from clusterra_contracts.identity import Moment, now
from clusterra_runtime.nats.registry import Registry
from pydantic import Field

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import budget_key
from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.http.answers.responses import Money, ResponseBody, json_response, money, no_content
from clusterra_gateway.http.requests.parameters import Body, body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.money.budgets.records import (
    MAX_BUDGETS,
    MAX_THRESHOLDS,
    Alert,
    Budget,
    Threshold,
    alert_name,
    alerts_of,
    budgets_of,
)
from clusterra_gateway.money.budgets.sweep import measured
from clusterra_gateway.money.costs.spending import Totals
from clusterra_gateway.money.quotas.limits import SCOPE, SCOPE_NAME, Limit, LimitKind, Limits, scope_in
from clusterra_gateway.money.quotas.records import ScopeKind, month_of

BUDGETS = "/v1/budgets"
BUDGET = f"{BUDGETS}/{{scope}}/{{scope_name}}"
KIND = LimitKind("budget", MAX_BUDGETS, budget_key, "budget.changed", "budget.deleted")
DEFAULT_THRESHOLDS = (
    Threshold(measure="actual", percent=80),
    Threshold(measure="actual", percent=100),
    Threshold(measure="forecast", percent=100),
)

api = caller_routes(SCOPE, SCOPE_NAME, reads=Needs("profile"), changes=Needs("members:write", "admin"))


class SetBudget(Body):
    """What the jobs of a month (UTC) should cost, and at which parts of it an event is told."""

    limit: Annotated[Limit, Field(gt=0)]
    """In US dollars, as a string."""
    thresholds: Annotated[tuple[Threshold, ...], Field(min_length=1, max_length=MAX_THRESHOLDS)] = DEFAULT_THRESHOLDS
    """In percent of the limit: of what was used (`actual`), or of the forecast."""


class ThresholdView(ResponseBody):
    """A threshold, and when it was crossed this month."""

    measure: BudgetMeasure
    percent: int
    crossed_at: Moment | None


class BudgetView(ResponseBody):
    """A budget, and how much of it is used this month. An amount is null while nothing of it is known."""

    scope: ScopeKind
    name: str
    limit: Money
    month: str
    actual: Money | None
    """What was used since the month began. That of a tenant has the overhead of workers."""
    forecast: Money | None
    """The actual costs, and what now runs until its known end or that of the month."""
    thresholds: tuple[ThresholdView, ...]
    stale: bool
    """Whether the edge has not confirmed a price for 90 s. The last one counts."""
    unknown: bool
    """Whether some price is unknown, or what some cluster cost. The amounts do not contain it."""
    as_of: Moment
    set_by: str
    set_at: Moment


class BudgetList(ResponseBody):
    """All budgets that the caller may see."""

    budgets: tuple[BudgetView, ...]


class BudgetHandlers:
    """The handlers of budgets."""

    def __init__(self, directory: Directory, ledger: LedgerRequests, registry: Registry, unix_users: UnixUsers) -> None:
        self._limits = Limits(KIND, directory, registry, unix_users)
        self._store = directory.store
        self._ledger = ledger
        self._registry = registry

    @api.get("budgets_list", BUDGETS, result=BudgetList)
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the budgets with their costs and forecasts. Admins see all, others their own and the tenant's."""
        tenant = caller.member.tenant
        budgets = await self._limits.visible(caller.member, await budgets_of(self._store, tenant))
        return json_response(BudgetList(budgets=await self._views(tenant, budgets)))

    @api.put("budgets_set", BUDGET, body=SetBudget, result=BudgetView)
    async def put(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Sets the budget of a user, an account or the tenant, in place of the one before.

        A budget refuses nothing: a quota does. Each threshold is told once a month by the event `budget.threshold`,
        also if the budget is set again.
        """
        wanted = await body(request, SetBudget)
        tenant, scope = caller.member.tenant, scope_in(request, caller)
        budget = Budget(
            scope=scope,
            limit_micro_usd=int(wanted.limit * 1_000_000),
            thresholds=tuple(dict.fromkeys(wanted.thresholds)),
            set_by=caller.member.user,
            set_at=now(),
        )
        present = len(await budgets_of(self._store, tenant))
        told = ", ".join(f"{each.measure} {each.percent} %" for each in budget.thresholds)
        await self._limits.set(caller.member, budget, present, told)
        return json_response((await self._views(tenant, [budget]))[0])

    @api.delete("budgets_delete", BUDGET)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Removes a budget. Thresholds that it crossed this month are not told again if it is set again."""
        await self._limits.delete(caller.member, scope_in(request, caller))
        return no_content()

    async def _views(self, tenant: str, budgets: Sequence[Budget]) -> tuple[BudgetView, ...]:
        if not budgets:
            return ()
        clusters = [ref for ref in self._registry.clusters if ref.tenant == tenant]
        measures = await measured(self._ledger, tenant, clusters)
        alerts = await alerts_of(self._store, tenant, month_of(measures.as_of))
        return tuple(_view(budget, measures.of(budget.scope), alerts, measures.as_of) for budget in budgets)


def _view(budget: Budget, costs: Totals, alerts: dict[str, Alert], as_of: Moment) -> BudgetView:
    month = month_of(as_of)
    crossed = {each: alerts.get(alert_name(month, budget.scope, each)) for each in budget.thresholds}
    return BudgetView.showing(
        budget,
        scope=budget.scope.kind,
        name=budget.scope.name,
        limit=Money.of(budget.limit_micro_usd),
        month=month,
        actual=money(costs.month_to_date),
        forecast=money(costs.forecast),
        thresholds=tuple(
            ThresholdView.showing(each, crossed_at=alert.crossed_at if alert else None)
            for each, alert in crossed.items()
        ),
        stale=costs.stale,
        unknown=costs.unknown,
        as_of=as_of,
    )
