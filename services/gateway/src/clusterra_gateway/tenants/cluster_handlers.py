"""The routes of a tenant's clusters for operators: `/v1/tenants/{tenant_id}/clusters`; and the owner's deletion."""

from functools import partial

from aiohttp import web
from clusterra_contracts.agent_http import new_key
from clusterra_contracts.identity import ClusterRef

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.projection import Projection, set_cluster_state
from clusterra_gateway.clusters.agents.keys import MadeAgentKey, NewAgentKey, rotated
from clusterra_gateway.clusters.handlers import ChangeCluster, ChangedCluster
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.errors import Forbidden
from clusterra_gateway.http.requests.json_body import BodyBounds
from clusterra_gateway.http.requests.parameters import body, path_id, query
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.operators import Operator
from clusterra_gateway.identity.access.private_route import CLUSTER, CLUSTER_ID, Needs, cluster_routes, operator_routes
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.handlers import TENANT, TENANT_ID, owner_key
from clusterra_gateway.tenants.models import (
    BindCluster,
    BoundCluster,
    DeletedCluster,
    DeletionQuery,
    RebindCluster,
    TenantCluster,
    TenantClusters,
)
from clusterra_gateway.tenants.tenant_clusters import TenantClusters as Clusters

CLUSTERS = f"{TENANT}/clusters"
OF_TENANT = f"{CLUSTERS}/{{cluster_id}}"
BINDING_BOUNDS = BodyBounds(256 * 1024, 20_000)
"""A shape of the catalogue has some fifteen values."""


api = operator_routes(TENANT_ID, CLUSTER_ID)
of_owners = cluster_routes(changes=Needs("clusters:write", "owner"))


class TenantClusterHandlers:
    """The handlers of clusters. Each change is put into the registry at once, where the services read it."""

    def __init__(
        self, clusters: Clusters, directory: Directory, deletions: Deletions, projection: Projection, once: AnswerOnce
    ) -> None:
        self._clusters = clusters
        self._directory = directory
        self._deletions = deletions
        self._projection = projection
        self._once = once

    @api.post(
        "tenants_bind_cluster",
        CLUSTERS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=BindCluster,
        result=BoundCluster,
    )
    async def bind(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Binds a cluster to a tenant: from then on its Slurm is served, and workers are bought for its jobs.

        `jwt_key` and `slurm_key` are references, which the services resolve; the secrets themselves are never sent.
        Give the `agent_key` to the cluster's edge-agent.
        """
        tenant_id, wanted = path_id(request, TENANT_ID), await body(request, BindCluster, bounds=BINDING_BOUNDS)
        answer = await self._once.answer(
            request, owner_key(tenant_id, operator), wanted, partial(self._bind, operator, tenant_id, wanted)
        )
        await self._projection.project_now(tenant_id)
        return answer

    async def _bind(self, operator: Operator, tenant_id: str, wanted: BindCluster) -> BoundCluster:
        key = new_key()
        version = await self._clusters.bind(tenant_id, wanted, key, by=operator.actor)
        return BoundCluster(id=wanted.id, version=version, agent_key=key)

    @api.get("tenants_clusters", CLUSTERS, result=TenantClusters)
    async def list(self, request: web.Request, _operator: Operator) -> web.StreamResponse:
        """Lists the clusters of a tenant, by id."""
        found = await self._clusters.list(path_id(request, TENANT_ID))
        clusters = tuple(TenantCluster.of(*each) for each in found.items())
        return json_response(TenantClusters(clusters=clusters, total=len(clusters)))

    @api.get("tenants_cluster", OF_TENANT, result=TenantCluster)
    async def get(self, request: web.Request, _operator: Operator) -> web.StreamResponse:
        """Returns a cluster of a tenant."""
        ref = _ref(request)
        return json_response(TenantCluster.of(ref, await self._clusters.get(ref)))

    @api.put("tenants_rebind_cluster", OF_TENANT, body=RebindCluster, result=TenantCluster)
    async def rebind(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Gives a cluster of a tenant another binding: its address, policy, catalogue, bucket and so on.

        The request has the whole binding. Whether the cluster is paused stays as it is, and so do its agent's keys.
        The services take the change up at once.
        """
        ref, wanted = _ref(request), await body(request, RebindCluster, bounds=BINDING_BOUNDS)
        binding = await self._clusters.rebind(ref, wanted, by=operator.actor)
        await self._projection.project_now(ref.tenant)
        return json_response(TenantCluster.of(ref, binding))

    @api.patch("tenants_change_cluster", OF_TENANT, body=ChangeCluster, result=ChangedCluster)
    async def change(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Pauses or resumes a cluster of a tenant. A paused cluster buys no workers."""
        ref, wanted = _ref(request), await body(request, ChangeCluster)
        changed = await set_cluster_state(self._directory, ref, wanted.state, actor=operator.actor)
        await self._projection.project_now(ref.tenant)
        return json_response(ChangedCluster(id=ref.cluster, state=wanted.state, changed=changed))

    @api.post(
        "tenants_agent_key",
        f"{OF_TENANT}/agent-keys",
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=NewAgentKey,
        result=MadeAgentKey,
    )
    async def new_agent_key(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Makes a new agent key for a cluster. The key before it works for `overlap_seconds` more."""
        ref, wanted = _ref(request), await body(request, NewAgentKey)
        await self._clusters.get(ref)
        act = partial(rotated, self._directory, ref, wanted, actor=operator.actor)
        return await self._once.answer(request, owner_key(ref.tenant, operator), wanted, act)

    @api.delete("tenants_delete_cluster", OF_TENANT, status=202, query=DeletionQuery, result=DeletedCluster)
    async def delete(self, request: web.Request, operator: Operator) -> web.StreamResponse:
        """Begins to delete a cluster of a tenant. With `force`, what its edge still has is not waited for.

        It takes no jobs any more, and its workers go as their jobs end. Then all its records go. Workers and jobs that
        `force` leaves behind are yours to end.
        """
        return await self._delete(_ref(request), by=operator.actor, force=query(request, DeletionQuery).force)

    @of_owners.delete("clusters_delete", CLUSTER, status=202, result=DeletedCluster)
    async def delete_own(self, _request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Begins to delete the cluster: it takes no jobs any more, and its workers go as their jobs end.

        Then all its records go: the history of its jobs, its runs, its agent key. It cannot be taken back. The cluster
        is listed as `deleting` until it is gone. This needs a session.
        """
        if caller.credential != "session":
            raise Forbidden("a token cannot delete a cluster", hint="sign in and delete it from there")
        return await self._delete(ref, by=caller.member.user, force=False)

    async def _delete(self, ref: ClusterRef, *, by: str, force: bool) -> web.StreamResponse:
        deletion = await self._deletions.begin_cluster(ref, by=by, force=force)
        await self._projection.project_now(ref.tenant)
        shown = DeletedCluster(id=ref.cluster, deleting_since=deletion.since, force=deletion.force)
        return json_response(shown, status=202)


def _ref(request: web.Request) -> ClusterRef:
    return ClusterRef(tenant=path_id(request, TENANT_ID), cluster=path_id(request, CLUSTER_ID))
