"""The routes of quotas: admins set them and see all; others see their own and the tenant's."""

from decimal import Decimal
from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Moment, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.store import ConditionFailed, Delete, Put
from pydantic import BeforeValidator, Field, WithJsonSchema

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, quota_key
from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.http.errors import Conflict, InvalidRequest, NotFound
from clusterra_gateway.http.money import Money, decimal
from clusterra_gateway.http.parameters import Body, NotBoolean, Parameter, body, path_id
from clusterra_gateway.http.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.route import Route
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.private_route import CallerRoute
from clusterra_gateway.identity_maps.unix_users import UnixUsers
from clusterra_gateway.quotas.records import MAX_MICRO_USD, Mode, Quota, QuotaScope, ScopeKind
from clusterra_gateway.quotas.reservations import MAX_QUOTAS, Reservations, month_of

QUOTAS = "/v1/quotas"
QUOTA = f"{QUOTAS}/{{scope}}/{{scope_name}}"
SCOPE = Parameter("scope", "path", "^(user|account|tenant)$", "Whose jobs the quota is for.")
SCOPE_NAME = Parameter(
    "scope_name",
    "path",
    "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$",
    "The Slurm name of the user or the account, or the id of the tenant.",
)


def _amount(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError('an amount is a string, such as "250.00"')  # noqa: TRY004 - pydantic reads ValueError
    return value


class SetQuota(Body):
    """The limit on what the jobs of a month (UTC) may cost."""

    limit: Annotated[
        Decimal,
        BeforeValidator(_amount),
        Field(ge=0, le=MAX_MICRO_USD // 1_000_000, decimal_places=6, allow_inf_nan=False),
        WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,12}(\.[0-9]{1,6})?$"}),
    ]
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
        self._store = directory.store
        self._reservations = reservations
        self._registry = registry
        self._unix_users = unix_users

    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the quotas with what is used of them. Admins see all, others their own and the tenant's."""
        member = caller.member
        users = (await self._unix_users.by_source(member, self._registry.clusters)).values()
        own = {QuotaScope(kind="user", name=user.name) for user in users}
        own.add(QuotaScope(kind="tenant", name=member.tenant))
        found = [
            quota
            for quota in await self._reservations.quotas(member.tenant)
            if manages(member.role) or quota.scope in own
        ]
        return json_response(QuotaList(quotas=tuple([await self._view(member.tenant, quota) for quota in found])))

    async def put(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Sets the quota of a user, an account or the tenant, in place of the one before.

        `warn` warns beyond the limit; `block` refuses submits beyond the limit and its buffer; `block_and_kill` also
        cancels jobs beyond it, the newest first. It holds for submits from now on. A job that has no time limit is
        refused where a quota blocks.
        """
        wanted = await body(request, SetQuota)
        tenant, scope = caller.member.tenant, self._scope(request, caller)
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
        if present is None and len(await self._reservations.quotas(tenant)) >= MAX_QUOTAS:
            raise Conflict(f"a tenant has {MAX_QUOTAS} quotas at most", hint="delete one that is no longer needed")
        condition = Absent() if present is None else VersionIs(present.version)
        try:
            await self._store.write(Put(ACCOUNTS, key, quota.attributes(), condition))
        except ConditionFailed:
            raise Conflict("somebody else has just set this quota", hint="read it and decide again") from None
        return json_response(await self._view(tenant, quota))

    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Removes a quota. What is used of it is still counted for its month."""
        key = quota_key(caller.member.tenant, str(self._scope(request, caller)))
        if await self._store.get(ACCOUNTS, key) is None:
            raise NotFound("there is no such quota", hint=f"GET {QUOTAS} lists all")
        await self._store.delete(Delete(ACCOUNTS, key))
        return no_content()

    def _scope(self, request: web.Request, caller: Caller) -> QuotaScope:
        scope = QuotaScope.model_validate({"kind": path_id(request, SCOPE), "name": path_id(request, SCOPE_NAME)})
        if scope.kind == "tenant" and scope.name != caller.member.tenant:
            raise InvalidRequest("the quota of a tenant has its id for a name", hint=f"use {caller.member.tenant}")
        return scope

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


def routes(
    access: Access, directory: Directory, reservations: Reservations, registry: Registry, unix_users: UnixUsers
) -> tuple[Route, ...]:
    """All routes of this room."""
    handlers = QuotaHandlers(directory, reservations, registry, unix_users)
    of_quota = (SCOPE, SCOPE_NAME)
    return (
        CallerRoute("quotas_list", "GET", QUOTAS, handlers.list, access=access, scope="profile", result=QuotaList),
        CallerRoute(
            "quotas_set",
            "PUT",
            QUOTA,
            handlers.put,
            access=access,
            scope="members:write",
            role="admin",
            parameters=of_quota,
            body=SetQuota,
            result=QuotaView,
        ),
        CallerRoute(
            "quotas_delete",
            "DELETE",
            QUOTA,
            handlers.delete,
            access=access,
            scope="members:write",
            role="admin",
            parameters=of_quota,
            status=204,
        ),
    )
