"""The routes of quotas: admins set them and see all; others see their own and the tenant's."""

from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Moment, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.store import Delete, Put
from pydantic import Field

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, quota_key
from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.http.answers.money import Money, decimal
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.money.quotas.known_quotas import KnownQuotas
from clusterra_gateway.money.quotas.limit_changes import LimitChanges
from clusterra_gateway.money.quotas.records import Mode, Quota, ScopeKind
from clusterra_gateway.money.quotas.reservations import MAX_QUOTAS, Reservations, month_of
from clusterra_gateway.money.quotas.scopes import SCOPE, SCOPE_NAME, Limit, own_scopes, scope_in

QUOTAS = "/v1/quotas"
QUOTA = f"{QUOTAS}/{{scope}}/{{scope_name}}"


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
        self,
        directory: Directory,
        reservations: Reservations,
        known: KnownQuotas,
        registry: Registry,
        unix_users: UnixUsers,
    ) -> None:
        self._store = directory.store
        self._changes = LimitChanges(directory, registry)
        self._reservations = reservations
        self._known = known
        self._registry = registry
        self._unix_users = unix_users

    @api.get("quotas_list", QUOTAS, result=QuotaList)
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the quotas with what is used of them. Admins see all, others their own and the tenant's."""
        member = caller.member
        own = await own_scopes(member, self._unix_users, self._registry)
        found = [
            quota
            for quota in (await self._reservations.quotas(member.tenant)).readable
            if manages(member.role) or quota.scope in own
        ]
        return json_response(QuotaList(quotas=tuple([await self._view(member.tenant, quota) for quota in found])))

    @api.put("quotas_set", QUOTA, body=SetQuota, result=QuotaView)
    async def put(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Sets the quota of a user, an account or the tenant, in place of the one before.

        `warn` warns beyond the limit; `block` refuses submits beyond the limit and its buffer; `block_and_kill` also
        cancels jobs beyond it, the newest first. It holds for submits from now on. A job that has no time limit is
        refused where a quota blocks.
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
        key = quota_key(tenant, str(scope))
        present = await self._store.get(ACCOUNTS, key)
        if present is None and len((await self._reservations.quotas(tenant)).readable) >= MAX_QUOTAS:
            raise Conflict(f"a tenant has {MAX_QUOTAS} quotas at most", hint="delete one that is no longer needed")
        condition = Absent() if present is None else VersionIs(present.version)
        told = f"{decimal(quota.limit_micro_usd)} USD, {quota.mode}, buffer {quota.buffer_percent} %"
        put = Put(ACCOUNTS, key, quota.attributes(), condition)
        try:
            await self._changes.write(caller.member, "quota.changed", scope, put, told)
        finally:
            self._known.forget(tenant)
        return json_response(await self._view(tenant, quota))

    @api.delete("quotas_delete", QUOTA)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Removes a quota. What is used of it is still counted for its month."""
        scope = scope_in(request, caller)
        key = quota_key(caller.member.tenant, str(scope))
        present = await self._store.get(ACCOUNTS, key)
        if present is None:
            raise NotFound("there is no such quota", hint=f"GET {QUOTAS} lists all")
        delete = Delete(ACCOUNTS, key, VersionIs(present.version))
        try:
            await self._changes.write(caller.member, "quota.deleted", scope, delete)
        finally:
            self._known.forget(caller.member.tenant)
        return no_content()

    async def _view(self, tenant: str, quota: Quota) -> QuotaView:
        month = month_of(now())
        used = await self._reservations.used(tenant, month, quota.scope)
        return QuotaView(
            scope=quota.scope.kind,
            name=quota.scope.name,
            limit=Money(amount=decimal(quota.limit_micro_usd)),
            mode=quota.mode,
            buffer_percent=quota.buffer_percent,
            month=month,
            used=Money(amount=decimal(used)),
            left=Money(amount=decimal(quota.limit_micro_usd - used)),
            set_by=quota.set_by,
            set_at=quota.set_at,
        )
