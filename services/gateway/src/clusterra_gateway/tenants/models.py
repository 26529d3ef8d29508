"""The bodies and answers of the routes of tenants and of their clusters."""

from typing import Annotated, Literal, Self

from clusterra_contracts.identity import ClusterRef, Id, Moment
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy, Visibility
from pydantic import ConfigDict, Field

from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, Query
from clusterra_gateway.idempotency.once import ShownOnce
from clusterra_gateway.identity.tokens.tokens import DAY
from clusterra_gateway.people.invitation_handlers import InvitedAddress
from clusterra_gateway.tenants.specification import (
    BindingFields,
    ClusterFields,
    Domains,
    Issuers,
    TenantName,
    UsdPerHour,
)


class CreateTenant(Body):
    """A tenant, and who is to be its first owner."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    id: Id
    name: TenantName
    domains: Domains = ()
    """The e-mail domains of its people: whoever signs in with such an address joins it."""
    issuers: Issuers = ()
    """The OpenID Connect issuers that may assert addresses in the domains. Empty: the gateway's own issuer."""
    usd_per_hour: UsdPerHour | None = None
    """The cap on all its clusters' workers together. Null: only the clusters' own caps apply."""
    owner: InvitedAddress
    """Who is invited to be the first owner."""
    invitation_seconds: Annotated[int, Field(ge=60, le=30 * DAY), NotBoolean] = 7 * DAY


class ChangeTenant(Body):
    """What to change. A field that is missing stays as it is; `usd_per_hour` null removes the cap."""

    name: TenantName | None = None
    domains: Domains | None = None
    issuers: Issuers | None = None
    usd_per_hour: UsdPerHour | None = None


class InviteToTenant(Body):
    """The request to invite an address, also as an owner."""

    email: InvitedAddress
    role: Literal["viewer", "member", "admin", "owner"] = "owner"
    expires_in_seconds: Annotated[int, Field(ge=60, le=30 * DAY), NotBoolean] = 7 * DAY


class TenantsQuery(Query):
    """Which part of the list."""

    limit: Annotated[int, Field(ge=1, le=200)] = 100
    cursor: str | None = None


class DeletionQuery(Query):
    """How to delete. With `force`, what the edges still have is not waited for, and stays there."""

    force: bool = False


class TenantView(ResponseBody):
    """A tenant. It is `deleting` until nothing of it is left."""

    id: str
    name: str
    state: Literal["active", "deleting"]
    domains: tuple[str, ...]
    issuers: tuple[str, ...]
    usd_per_hour: float | None
    deleting_since: Moment | None

    @classmethod
    def of(cls, tenant_id: str, tenant: Tenant) -> Self:
        """What operators see of a tenant."""
        return cls(
            id=tenant_id,
            name=tenant.name,
            state="active" if tenant.deletion is None else "deleting",
            domains=tenant.domains,
            issuers=tenant.issuers,
            usd_per_hour=tenant.usd_per_hour,
            deleting_since=None if tenant.deletion is None else tenant.deletion.since,
        )


class TenantPage(ResponseBody):
    """Tenants in the order of their ids. `next_cursor` reads on; null at the end."""

    tenants: tuple[TenantView, ...]
    next_cursor: str | None


class OwnerInvitation(ShownOnce):
    """An invitation. Hand the `token` to the person: it is shown only this once, and nothing is sent by mail."""

    email: str
    role: str
    expires_at: Moment
    token: str


class MadeTenant(ShownOnce):
    """A new tenant, and the invitation of its first owner, whose token is shown only this once."""

    tenant: TenantView
    invitation: OwnerInvitation


class TenantCluster(ResponseBody):
    """A cluster as operators see it: its binding without the catalogue, and nothing of its jobs."""

    id: str
    name: str
    state: Literal["active", "paused", "deleting"]
    version: int
    slurmrestd_url: str
    partition: str
    visibility: Visibility
    policy: ScalingPolicy

    @classmethod
    def of(cls, ref: ClusterRef, binding: ClusterBinding) -> Self:
        """The cluster with this binding."""
        return cls(
            id=ref.cluster,
            name=binding.name,
            state=binding.lifecycle,
            version=binding.version,
            slurmrestd_url=binding.slurmrestd_url,
            partition=binding.partition,
            visibility=binding.visibility,
            policy=binding.policy,
        )


class TenantClusters(ResponseBody):
    """All clusters of a tenant."""

    clusters: tuple[TenantCluster, ...]
    total: int


class BindCluster(ClusterFields, Body):
    """A cluster to bind: its id, where its slurmrestd is, how it scales. Secrets are given by reference only."""


class RebindCluster(BindingFields, Body):
    """The whole binding of a cluster: what is left out is as for a new one. Its state stays as it is."""


class BoundCluster(ShownOnce):
    """A new cluster. `agent_key` is for its edge-agent over HTTP, and is shown only this once."""

    version: int
    agent_key: str


class DeletedCluster(ResponseBody):
    """A cluster whose deletion has begun. It is gone when it is not listed any more."""

    id: str
    state: Literal["deleting"] = "deleting"
    deleting_since: Moment
    force: bool
