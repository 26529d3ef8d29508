"""Whose quota or budget a request is about, and its limit."""

from decimal import Decimal
from typing import Annotated, get_args

from aiohttp import web
from clusterra_runtime.nats.registry import Registry
from pydantic import BeforeValidator, Field, WithJsonSchema

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.http.requests.errors import InvalidRequest, NotFound
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.money.quotas.records import MAX_MICRO_USD, QuotaScope, ScopeKind

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


async def own_scopes(member: Member, unix_users: UnixUsers, registry: Registry) -> set[QuotaScope]:
    """The scopes whose limits a member may see without being an admin: their own and the tenant's."""
    users = (await unix_users.by_source(member, registry.clusters)).values()
    return {QuotaScope(kind="tenant", name=member.tenant)} | {QuotaScope(kind="user", name=user.name) for user in users}


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
