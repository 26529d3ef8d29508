"""The routes of the caller's clusters: `/v1/clusters`."""

from aiohttp import web
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.bus.edge_connections import ConnectionState, EdgeConnections
from clusterra_gateway.http.responses import ResponseBody, json_response
from clusterra_gateway.http.route import Route
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.private_route import CallerRoute


class Cluster(ResponseBody):
    """A cluster. `connection_state` is that of its edge."""

    id: str
    name: str
    state: str
    connection_state: ConnectionState


class Clusters(ResponseBody):
    """All clusters of the caller's tenant."""

    clusters: tuple[Cluster, ...]
    total: int


class ClusterList:
    """The handler of the list of clusters."""

    def __init__(self, registry: Registry, edges: EdgeConnections) -> None:
        self._registry = registry
        self._edges = edges

    async def clusters(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the clusters of the caller's tenant, by id."""
        clusters = tuple(
            Cluster(id=ref.cluster, name=binding.name, state=binding.state, connection_state=self._edges.state(ref))
            for ref, binding in sorted(self._registry.clusters.items(), key=lambda entry: entry[0].cluster)
            if ref.tenant == caller.member.tenant
        )
        return json_response(Clusters(clusters=clusters, total=len(clusters)))


def routes(access: Access, registry: Registry, edges: EdgeConnections) -> tuple[Route, ...]:
    """All routes of this room."""
    cluster_list = ClusterList(registry, edges)
    return (CallerRoute("clusters_list", "GET", "/v1/clusters", cluster_list.clusters, access=access, result=Clusters),)
