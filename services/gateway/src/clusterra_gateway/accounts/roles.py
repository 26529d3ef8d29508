"""The roles of members in their tenant, the scopes that a token may be limited to, and those of operators."""

from typing import Literal, get_args

type Role = Literal["viewer", "member", "admin", "owner"]
"""What a person may do in their tenant. Each role includes the ones before it.

`viewer` reads; `member` also submits and cancels their own jobs; `admin` also sees everybody's jobs, and manages
members and their tokens; `owner` also decides who is an owner.
"""
type Scope = Literal[
    "profile",
    "clusters:read",
    "clusters:write",
    "jobs:read",
    "jobs:write",
    "events:read",
    "files:read",
    "files:write",
    "members:read",
    "members:write",
    "webhooks:read",
    "webhooks:write",
    "bus-credentials:read",
    "bus-credentials:write",
    "scim",
]
"""What a token may be used for. A token without scopes may do all that its owner may.

`scim` is for the keys of service accounts that have no other scope: a directory provisions with one.
"""
type OperatorScope = Literal["tenants:read", "tenants:write"]
"""What an operator of the platform may do: look at tenants and their clusters, and make, change and delete them.

No member's token has these, and no operator has a member's: an operator sees no job and no data of a tenant.
"""
OPERATOR_ROLE = "operator"
"""What a route of operators names in the place of a role. It is none of a member's."""

ROLES: tuple[Role, ...] = get_args(Role.__value__)
SCOPES: tuple[Scope, ...] = get_args(Scope.__value__)
OPERATOR_SCOPES: tuple[OperatorScope, ...] = get_args(OperatorScope.__value__)
PROGRAM_SCOPES: tuple[Scope, ...] = tuple(scope for scope in SCOPES if scope != "scim")
"""What a person may let a program do for them."""


def includes(role: Role, needed: Role) -> bool:
    """Whether a role may do what another one may."""
    return ROLES.index(role) >= ROLES.index(needed)


def manages(role: Role) -> bool:
    """Whether a role manages the tenant's members. A tenant always has a member with such a role."""
    return includes(role, "admin")
