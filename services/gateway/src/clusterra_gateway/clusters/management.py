"""What admins change of a cluster: its state."""

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.bus import BusUnavailable

from clusterra_gateway.accounts.cluster_state import ClusterState, set_cluster_state
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.parameters import Body, body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

log = structlog.get_logger()


api = cluster_routes(reads=Needs("clusters:write", "admin"))


class ChangeCluster(Body):
    """The state that the cluster is to have."""

    state: ClusterState


class ChangedCluster(ResponseBody):
    """A cluster's state in the record. `changed` is false where it was so before."""

    id: str
    state: ClusterState
    changed: bool


class ClusterManagement:
    """The handlers of changes."""

    def __init__(self, directory: Directory, projection: Projection) -> None:
        self._directory = directory
        self._projection = projection

    @api.patch("clusters_change", CLUSTER, body=ChangeCluster, result=ChangedCluster)
    async def change(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Pauses or resumes a cluster.

        A paused cluster buys no workers: its jobs wait, those that run go on, and idle workers go.
        """
        wanted = await body(request, ChangeCluster)
        changed = await set_cluster_state(self._directory, ref, wanted.state, actor=caller.member.user)
        try:
            await self._projection.project(ref)
        except BusUnavailable as error:
            log.warning("cluster_not_projected", cluster=ref.cluster, reason=str(error))  # it is soon repeated
        return json_response(ChangedCluster(id=ref.cluster, state=wanted.state, changed=changed))
