"""The routes of bus credentials, for admins: create, list, renew, revoke."""

import secrets

from aiohttp import web
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.bus.bus_login_requests import BusLoginRequests
from clusterra_gateway.bus_credentials.models import (
    BusCredential,
    BusCredentialList,
    BusCredentialView,
    NewBusCredential,
    RenewBusCredential,
    SignedBusCredential,
)
from clusterra_gateway.bus_credentials.records import BusCredentialRecords
from clusterra_gateway.http.answers.responses import json_response, no_content
from clusterra_gateway.http.requests.errors import FieldError, InvalidRequest
from clusterra_gateway.http.requests.parameters import Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes

BUS_CREDENTIALS = "/v1/bus-credentials"
BUS_CREDENTIAL = f"{BUS_CREDENTIALS}/{{bus_credential_id}}"
BUS_CREDENTIAL_ID = Parameter("bus_credential_id", "path", "^bc_[0-9a-f]{16}$")

api = caller_routes(
    BUS_CREDENTIAL_ID,
    reads=Needs("bus-credentials:read", "admin"),
    changes=Needs("bus-credentials:write", "admin"),
)


class BusCredentialHandlers:
    """The handlers of bus credentials."""

    def __init__(self, records: BusCredentialRecords, logins: BusLoginRequests, registry: Registry) -> None:
        self._records = records
        self._logins = logins
        self._registry = registry

    @api.post(
        "bus_credentials_create",
        BUS_CREDENTIALS,
        status=201,
        body=NewBusCredential,
        result=SignedBusCredential,
        names=(Named(BUS_CREDENTIAL, "/id"),),
    )
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Creates a bus credential: with its login and its own seed, a program subscribes to events at NATS.

        It sees what an admin sees: all events of the workspace, or of one cluster. 409 for more than 20, and for a key
        that another one has.
        """
        wanted = await body(request, NewBusCredential)
        tenant = caller.member.tenant
        self._check_cluster(tenant, wanted.cluster_id)
        await self._records.check_room(tenant, wanted.public_key)
        at = now()
        credential = BusCredential(
            id=f"bc_{secrets.token_hex(8)}",
            name=wanted.name,
            public_key=wanted.public_key,
            cluster=wanted.cluster_id,
            created_by=caller.member.user,
            created_at=at,
            renewed_at=at,
            expires_at=at,
        )
        login = await self._logins.sign(tenant, credential, wanted.lifetime_seconds)
        made = credential.model_copy(update={"expires_at": login.expires_at})
        await self._records.create(caller.member, made)
        return json_response(SignedBusCredential.signed(tenant, made, login), status=201)

    @api.get(
        "bus_credentials_list",
        BUS_CREDENTIALS,
        result=BusCredentialList,
    )
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the bus credentials of the caller's workspace."""
        tenant = caller.member.tenant
        shown = tuple(BusCredentialView.of(tenant, each) for each in await self._records.all(tenant))
        return json_response(BusCredentialList(bus_credentials=shown, total=len(shown)))

    @api.post("bus_credentials_renew", f"{BUS_CREDENTIAL}/renew", body=RenewBusCredential, result=SignedBusCredential)
    async def renew(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Signs a new login for the same key. Present ones stay valid until they end.

        409 if it is renewed or revoked by others at this moment.
        """
        credential_id, wanted = path_id(request, BUS_CREDENTIAL_ID), await body(request, RenewBusCredential)
        tenant = caller.member.tenant
        stored = await self._records.get(tenant, credential_id)
        login = await self._logins.sign(tenant, stored.credential, wanted.lifetime_seconds)
        renewed = stored.credential.model_copy(update={"renewed_at": now(), "expires_at": login.expires_at})
        # Only a login whose credential is still there is handed out: a revocation before it would not revoke it.
        await self._records.renewed(tenant, stored, renewed)
        return json_response(SignedBusCredential.signed(tenant, renewed, login))

    @api.delete("bus_credentials_revoke", BUS_CREDENTIAL)
    async def revoke(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes a bus credential: its connections are cut within a second, and none of its logins works again."""
        tenant = caller.member.tenant

        async def cut(credential: BusCredential) -> None:
            await self._logins.revoke(tenant, credential.public_key)

        await self._records.revoke(caller.member, path_id(request, BUS_CREDENTIAL_ID), cut)
        return no_content()

    def _check_cluster(self, tenant: str, cluster: str | None) -> None:
        known = {ref.cluster for ref in self._registry.clusters if ref.tenant == tenant}
        if cluster is not None and cluster not in known:
            detail = f"the workspace has no cluster {cluster}"
            error = FieldError("body", "#/cluster_id", detail)
            raise InvalidRequest(f"cluster_id: {detail}", hint="GET /v1/clusters lists them", errors=(error,))
