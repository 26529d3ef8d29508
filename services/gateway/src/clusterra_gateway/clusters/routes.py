"""The routes of the caller's clusters: `/v1/clusters`."""

from aiohttp import web
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.bus.conditions import Conditions
from clusterra_gateway.bus.edge_connections import ConnectionState, EdgeConnections
from clusterra_gateway.http.responses import ResponseBody, json_response
from clusterra_gateway.http.route import Route
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.private_route import CallerRoute

HEALTHY = ClusterCondition()


class Cluster(ResponseBody):
    """A cluster. `connection_state` is that of its edge.

    `degraded` has the reasons why the cluster does not work fully: none for a healthy one, null when it is not known.
    """

    id: str
    name: str
    state: str
    connection_state: ConnectionState
    degraded: tuple[Degradation, ...] | None


class Clusters(ResponseBody):
    """All clusters of the caller's tenant."""

    clusters: tuple[Cluster, ...]
    total: int


class ClusterList:
    """The handler of the list of clusters."""

    def __init__(self, registry: Registry, edges: EdgeConnections, conditions: Conditions) -> None:
        self._registry = registry
        self._edges = edges
        self._conditions = conditions

    async def clusters(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the clusters of the caller's tenant, by id."""
        conditions = await self._conditions.of_tenant(caller.member.tenant)
        clusters = tuple(
            Cluster(
                id=ref.cluster,
                name=binding.name,
                state=binding.state,
                connection_state=self._edges.state(ref),
                degraded=None if conditions is None else conditions.get(ref, HEALTHY).degraded,
            )
            for ref, binding in sorted(self._registry.clusters.items(), key=lambda entry: entry[0].cluster)
            if ref.tenant == caller.member.tenant
        )
        return json_response(Clusters(clusters=clusters, total=len(clusters)))


def routes(access: Access, registry: Registry, edges: EdgeConnections, conditions: Conditions) -> tuple[Route, ...]:
    """All routes of this room."""
    cluster_list = ClusterList(registry, edges, conditions)
    return (
        CallerRoute(
            "clusters_list",
            "GET",
            "/v1/clusters",
            cluster_list.clusters,
            access=access,
            scope="clusters:read",
            result=Clusters,
        ),
    )
