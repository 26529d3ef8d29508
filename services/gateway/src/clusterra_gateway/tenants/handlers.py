"""The routes of tenants, for operators of the platform: `/v1/tenants`."""

from functools import partial

from aiohttp import web

from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.parameters import Parameter, body, path_id, query
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.operators import Operator
from clusterra_gateway.identity.access.private_route import operator_routes
from clusterra_gateway.people.invitations import Invitations, Inviter
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.models import (
    ChangeTenant,
    CreateTenant,
    DeletionQuery,
    InviteToTenant,
    MadeTenant,
    OwnerInvitation,
    TenantPage,
    TenantsQuery,
    TenantView,
)
from clusterra_gateway.tenants.tenant_record import refuse_deleted
from clusterra_gateway.tenants.tenants import Tenants

TENANTS = "/v1/tenants"
TENANT = f"{TENANTS}/{{tenant_id}}"
TENANT_ID = Parameter("tenant_id", "path", "^[a-z0-9][a-z0-9-]{0,38}$")


api = operator_routes(TENANT_ID)


class TenantHandlers:
    """The handlers of tenants."""

    def __init__(
        self,
        tenants: Tenants,
        invitations: Invitations,
        deletions: Deletions,
        projection: Projection,
        once: AnswerOnce,
    ) -> None:
        self._tenants = tenants
        self._projection = projection
        self._invitations = invitations
        self._deletions = deletions
        self._once = once

    @api.post(
        "tenants_create", TENANTS, status=201, parameters=(IDEMPOTENCY_KEY,), body=CreateTenant, result=MadeTenant
    )
    async def create(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Makes a tenant, and invites its first owner.

        Hand the invitation's `token` to that person, who accepts it with `POST /v1/auth/login`. The id of a tenant that
        was deleted is free again after 90 days.
        """
        wanted = await body(request, CreateTenant)
        return await self._once.answer(
            request, owner_key(wanted.id, operator), wanted, partial(self._create, operator, wanted)
        )

    async def _create(self, operator: Operator, wanted: CreateTenant) -> MadeTenant:
        tenant = Tenant(**wanted.model_dump(include={"name", "domains", "issuers", "usd_per_hour"}))
        await self._tenants.create(wanted.id, tenant, by=operator.actor)
        invite = InviteToTenant(email=wanted.owner, expires_in_seconds=wanted.invitation_seconds)
        invitation = await self._invite(operator, wanted.id, invite)
        return MadeTenant(id=wanted.id, tenant=TenantView.of(wanted.id, tenant), invitation=invitation)

    @api.get("tenants_list", TENANTS, query=TenantsQuery, result=TenantPage)
    async def list(self, request: web.Request, _operator: Operator) -> web.StreamResponse:
        """Lists all tenants, by id."""
        wanted = query(request, TenantsQuery)
        tenants, cursor = await self._tenants.page(limit=wanted.limit, cursor=wanted.cursor)
        return json_response(TenantPage(tenants=tuple(TenantView.of(*each) for each in tenants), next_cursor=cursor))

    @api.get("tenants_get", TENANT, result=TenantView)
    async def get(self, request: web.Request, _operator: Operator) -> web.StreamResponse:
        """Returns a tenant. It is there, as `deleting`, until nothing of it is left."""
        tenant_id = path_id(request, TENANT_ID)
        return json_response(TenantView.of(tenant_id, await self._tenants.get(tenant_id)))

    @api.patch("tenants_change", TENANT, body=ChangeTenant, result=TenantView)
    async def change(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Changes a tenant. `domains` and `issuers` replace the ones before.

        People of a domain that is taken away stay members. A new cap is shared out among the clusters at once.
        """
        tenant_id, wanted = path_id(request, TENANT_ID), await body(request, ChangeTenant)
        changes = {
            name: getattr(wanted, name)
            for name in wanted.model_fields_set
            if name == "usd_per_hour" or getattr(wanted, name) is not None
        }

        def change(tenant: Tenant) -> Tenant:
            return tenant.model_copy(update=changes)

        changed = await self._tenants.change(tenant_id, change, by=operator.actor)
        await self._projection.project_now(tenant_id)
        return json_response(TenantView.of(tenant_id, changed))

    @api.delete("tenants_delete", TENANT, status=202, query=DeletionQuery, result=TenantView)
    async def delete(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Begins to delete a tenant: its clusters first, then its people and all their records.

        Nobody joins it any more, its clusters take no jobs, and their workers go as their jobs end. The removal waits
        for them, for a bounded time; with `force` it does not. It cannot be taken back. The tenant answers 404 when
        nothing of it is left.
        """
        tenant_id, wanted = path_id(request, TENANT_ID), query(request, DeletionQuery)
        tenant = await self._deletions.begin_tenant(tenant_id, by=operator.actor, force=wanted.force)
        return json_response(TenantView.of(tenant_id, tenant), status=202)

    @api.post(
        "tenants_invite",
        f"{TENANT}/invitations",
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=InviteToTenant,
        result=OwnerInvitation,
    )
    async def invite(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Invites an address to a tenant, also as an owner, for a tenant that has nobody who can."""
        tenant_id, wanted = path_id(request, TENANT_ID), await body(request, InviteToTenant)
        refuse_deleted(tenant_id, await self._tenants.get(tenant_id))
        return await self._once.answer(
            request, owner_key(tenant_id, operator), wanted, partial(self._invite, operator, tenant_id, wanted)
        )

    async def _invite(self, operator: Operator, tenant_id: str, wanted: InviteToTenant) -> OwnerInvitation:
        invitation_id, record, token = await self._invitations.create(
            Inviter(tenant_id, operator.actor), wanted.email, wanted.role, seconds=wanted.expires_in_seconds
        )
        return OwnerInvitation(
            id=invitation_id, email=record.email, role=record.role, expires_at=record.valid_until, token=token
        )


def owner_key(tenant_id: str, operator: Operator) -> str:
    """The owner of idempotency keys. It begins with the tenant, whose deletion removes them."""
    return f"{tenant_id}#{operator.actor}"
