"""Quotas and budgets in requests: whose they are, their amounts, and their changes with the event for the audit.

The event stands in an item of its own, because a deleted item cannot hold it. Both are one transaction.
"""

import secrets
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple, get_args

from aiohttp import web
from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled
from pydantic import BeforeValidator, Field, WithJsonSchema

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, limit_event_key
from clusterra_gateway.accounts.records import Member, expiry
from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.http.answers.responses import decimal
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, NotFound
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.money.quotas.records import MAX_MICRO_USD, MonthlyLimit, QuotaScope, ScopeKind, subject_of

SCOPE = Parameter("scope", "path", "^(user|account|tenant)$", "Whose jobs it is for.")
SCOPE_NAME = Parameter(
    "scope_name",
    "path",
    "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$",
    "The Slurm name of the user or the account, or the id of the tenant.",
)


def scope_in(request: web.Request, caller: Caller) -> QuotaScope:
    """The scope in the path. Raises NotFound for one of no kind, InvalidRequest for another tenant's."""
    if request.match_info[SCOPE.name] not in get_args(ScopeKind):
        raise NotFound(
            "quotas and budgets are for a user, an account or a tenant",
            hint=f"the path ends with user/NAME, account/NAME or tenant/{caller.member.tenant}",
        )
    scope = QuotaScope.model_validate({"kind": path_id(request, SCOPE), "name": path_id(request, SCOPE_NAME)})
    if scope.kind == "tenant" and scope.name != caller.member.tenant:
        raise InvalidRequest("the name of a tenant's scope is its id", hint=f"use {caller.member.tenant}")
    return scope


def _decimal_text(value: object) -> object:
    """Refuses an amount that is no string: a float is not exact."""
    if not isinstance(value, str):
        raise ValueError('an amount is a string, such as "250.00"')  # noqa: TRY004 - pydantic reads ValueError
    return value


Limit = Annotated[
    Decimal,
    BeforeValidator(_decimal_text),
    Field(ge=0, le=MAX_MICRO_USD // 1_000_000, decimal_places=6, allow_inf_nan=False),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,10}(\.[0-9]{1,6})?$"}),
]
"""An amount in US dollars in a request: a string."""

_KEPT = timedelta(days=2)
"""How long an item whose event was sent stays."""


class LimitKind(NamedTuple):
    """What differs between quotas and budgets where they are set and deleted."""

    name: str
    most: int
    """How many a tenant may have."""
    key: Callable[[str, str], Key]
    """The key of one, of a tenant and a scope."""
    changed: AdminKind
    deleted: AdminKind


class Limits:
    """The quotas or the budgets of all tenants, as their handlers read and change them."""

    def __init__(self, kind: LimitKind, directory: Directory, registry: Registry, unix_users: UnixUsers) -> None:
        self._kind = kind
        self._directory = directory
        self._registry = registry
        self._audited = AuditedWrites(directory, registry)
        self._unix_users = unix_users

    async def visible[L: MonthlyLimit](self, member: Member, limits: Iterable[L]) -> list[L]:
        """Those that a member may see: an admin all, others their own and the tenant's."""
        users = (await self._unix_users.by_source(member, self._registry.clusters)).values()
        own = {QuotaScope(kind="tenant", name=member.tenant)}
        own |= {QuotaScope(kind="user", name=user.name) for user in users}
        return [each for each in limits if manages(member.role) or each.scope in own]

    async def set(self, actor: Member, limit: MonthlyLimit, present: int, detail: str) -> None:
        """Set a limit in place of the one of its scope. `present`: how many the tenant has.

        Raises Conflict for one too many, and after a conflicting write.
        """
        kind, key = self._kind, self._kind.key(actor.tenant, str(limit.scope))
        before = await self._directory.store.get(ACCOUNTS, key)
        if before is None and present >= kind.most:
            raise Conflict(f"a tenant has {kind.most} {kind.name}s at most", hint="delete one that is no longer needed")
        condition = Absent() if before is None else VersionIs(before.version)
        put = Put(ACCOUNTS, key, limit.attributes(), condition)
        told = f"{decimal(limit.limit_micro_usd)} USD, {detail}"
        await self._write(actor, kind.changed, limit.scope, put, told)

    async def delete(self, actor: Member, scope: QuotaScope) -> None:
        """Remove a limit. Raises NotFound where there is none, and Conflict after a conflicting write."""
        kind, key = self._kind, self._kind.key(actor.tenant, str(scope))
        present = await self._directory.store.get(ACCOUNTS, key)
        if present is None:
            raise NotFound(f"there is no such {kind.name}", hint=f"GET /v1/{kind.name}s lists all")
        await self._write(actor, kind.deleted, scope, Delete(ACCOUNTS, key, VersionIs(present.version)))

    async def _write(
        self, actor: Member, kind: AdminKind, scope: QuotaScope, write: Put | Delete, detail: str = ""
    ) -> None:
        version = secrets.token_hex(8)
        fact = AdminFact(kind=kind, actor=actor.user, subject=subject_of(scope), detail=detail)
        carrier = Put(ACCOUNTS, limit_event_key(actor.tenant, version), {}, Absent(), expiry(now() + _KEPT))
        try:
            await self._audited.write(actor.tenant, [fact], carrier, [write])
        except TransactionCancelled:
            raise Conflict("somebody else has just changed it", hint="read it and decide again") from None
