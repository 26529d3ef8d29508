"""The routes about Unix identities: who the caller is on a cluster, and how the tenant's identity sources stand."""

from typing import Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import (
    CLUSTER,
    Needs,
    caller_routes,
    cluster_routes,
)

of_cluster = cluster_routes(reads=Needs("clusters:read"))
api = caller_routes(reads=Needs("members:read", "admin"))


class UnixGroup(ResponseBody):
    """A group of a user."""

    name: str
    gid: int


class ClusterIdentity(ResponseBody):
    """Who the caller is on a cluster: the user that their jobs run as.

    `name` and what follows are null where they are nobody there. `reason` then says why, and they cannot submit.
    """

    identity_source: str | None
    """Null: Clusterra allocates uids."""
    name: str | None
    uid: int | None
    gid: int | None
    groups: tuple[UnixGroup, ...]
    home: str | None
    reason: str


class IdentitySourceView(ResponseBody):
    """An identity source of the tenant, and how its map stands."""

    name: str
    kind: Literal["file", "ldap", "scim"]
    users: int
    """How many users may have jobs."""
    read_at: Moment | None
    """When it was last read as a whole."""
    tried_at: Moment | None
    problem: str
    """Why it could not be read since. The map is what was read last."""
    refused: int
    """How many of its users are not taken."""
    reasons: tuple[str, ...]
    """Why, of the first of them."""


class IdentitySources(ResponseBody):
    """All identity sources of a tenant, by name."""

    identity_sources: tuple[IdentitySourceView, ...]
    total: int


class IdentityHandlers:
    """The handlers of this room."""

    def __init__(self, records: MapRecords, registry: Registry) -> None:
        self._records = records
        self._registry = registry

    @of_cluster.get("clusters_identity", f"{CLUSTER}/identity", result=ClusterIdentity)
    async def me(self, _request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns who the caller is on a cluster: the name, uid and groups that their jobs have."""
        binding = self._registry.get(ref)
        unix_user = caller.unix_user
        user = unix_user.user if unix_user is not None else None
        shown = ClusterIdentity(
            identity_source=binding.identity_source if binding is not None else None,
            name=user.name if user else None,
            uid=user.uid if user else None,
            gid=user.gid if user else None,
            groups=tuple(UnixGroup(name=name, gid=gid) for name, gid in user.gid_of.items()) if user else (),
            home=user.home_in(binding.shared_path) if user and binding is not None else None,
            reason=unix_user.reason if unix_user is not None else "",
        )
        return json_response(shown)

    @api.get("identity_sources_list", "/v1/identity-sources", result=IdentitySources)
    async def sources(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists where the users of the tenant's clusters come from, and what was not taken from there."""
        tenant = caller.member.tenant
        shown: list[IdentitySourceView] = []
        for name, source in (await self._records.sources(tenant)).items():
            state, _ = await self._records.state(MapRef(tenant, name))
            shown.append(IdentitySourceView(name=name, kind=source.kind, **state.model_dump()))
        return json_response(IdentitySources(identity_sources=tuple(shown), total=len(shown)))
