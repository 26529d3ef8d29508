"""The routes of quotas: admins set them and see all; others see their own and the tenant's."""

from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Moment, now
from clusterra_runtime.nats.registry import Registry
from pydantic import Field

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import quota_key
from clusterra_gateway.http.answers.responses import Money, ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.money.quotas.limits import SCOPE, SCOPE_NAME, Limit, LimitKind, Limits, scope_in
from clusterra_gateway.money.quotas.records import Mode, Quota, ScopeKind, month_of
from clusterra_gateway.money.quotas.reservations import MAX_QUOTAS, Reservations

QUOTAS = "/v1/quotas"
QUOTA = f"{QUOTAS}/{{scope}}/{{scope_name}}"
KIND = LimitKind("quota", MAX_QUOTAS, quota_key, "quota.changed", "quota.deleted")

api = caller_routes(SCOPE, SCOPE_NAME, reads=Needs("profile"), changes=Needs("members:write", "admin"))


class SetQuota(Body):
    """The limit on what the jobs of a month (UTC) may cost."""

    limit: Limit
    """In US dollars, as a string."""
    mode: Mode = "warn"
    buffer_percent: Annotated[int, Field(ge=0, le=1000), NotBoolean] = 0
    """How far beyond the limit jobs are accepted, and go on to run."""


class QuotaView(ResponseBody):
    """A quota, and what is used of it this month."""

    scope: ScopeKind
    name: str
    limit: Money
    mode: Mode
    buffer_percent: int
    month: str
    used: Money
    """The cost of the jobs that have ended, and the projected cost of the others."""
    left: Money
    """Of the limit; negative beyond it."""
    set_by: str
    set_at: Moment


class QuotaList(ResponseBody):
    """All quotas that the caller may see."""

    quotas: tuple[QuotaView, ...]


class QuotaHandlers:
    """The handlers of quotas."""

    def __init__(
        self, directory: Directory, reservations: Reservations, registry: Registry, unix_users: UnixUsers
    ) -> None:
        self._limits = Limits(KIND, directory, registry, unix_users)
        self._reservations = reservations

    @api.get("quotas_list", QUOTAS, result=QuotaList)
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the quotas with what is used of them. Admins see all, others their own and the tenant's."""
        tenant = caller.member.tenant
        found = await self._limits.visible(caller.member, (await self._reservations.quotas(tenant)).readable)
        return json_response(QuotaList(quotas=tuple([await self._view(tenant, quota) for quota in found])))

    @api.put("quotas_set", QUOTA, body=SetQuota, result=QuotaView)
    async def put(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Sets the quota of a user, an account or the tenant, in place of the one before.

        `warn` warns beyond the limit; `block` refuses submits beyond the limit and its buffer; `block_and_kill` also
        cancels jobs beyond it, also running ones, the newest first. It holds for submits from now on: only
        `block_and_kill` ends jobs from before. A job that has no time limit is refused where a quota blocks.
        """
        wanted = await body(request, SetQuota)
        tenant, scope = caller.member.tenant, scope_in(request, caller)
        quota = Quota(
            scope=scope,
            limit_micro_usd=int(wanted.limit * 1_000_000),
            mode=wanted.mode,
            buffer_percent=wanted.buffer_percent,
            set_by=caller.member.user,
            set_at=now(),
        )
        present = len((await self._reservations.quotas(tenant)).readable)
        told = f"{quota.mode}, buffer {quota.buffer_percent} %"
        await self._limits.set(caller.member, quota, present, told)
        return json_response(await self._view(tenant, quota))

    @api.delete("quotas_delete", QUOTA)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Removes a quota. What is used of it is still counted for its month."""
        await self._limits.delete(caller.member, scope_in(request, caller))
        return no_content()

    async def _view(self, tenant: str, quota: Quota) -> QuotaView:
        month = month_of(now())
        used = await self._reservations.used(tenant, month, quota.scope)
        return QuotaView.showing(
            quota,
            scope=quota.scope.kind,
            name=quota.scope.name,
            limit=Money.of(quota.limit_micro_usd),
            month=month,
            used=Money.of(used),
            left=Money.of(quota.limit_micro_usd - used),
        )
