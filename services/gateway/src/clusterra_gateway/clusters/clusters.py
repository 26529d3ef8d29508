"""The caller's clusters: `/v1/clusters`."""

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.bus.connections import ConnectionState
from clusterra_gateway.context import gateway
from clusterra_gateway.http.replies import reply
from clusterra_gateway.identity.authentication import Caller


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Cluster(_Answer):
    """A cluster: `connection_state` is its edge's."""

    id: str
    name: str
    state: str
    connection_state: ConnectionState


class Clusters(_Answer):
    """All clusters of the caller's tenant."""

    clusters: tuple[Cluster, ...]
    total: int


async def clusters(request: web.Request, caller: Caller) -> web.StreamResponse:
    """The clusters of the caller's tenant, by id."""
    parts = gateway(request)
    found = tuple(
        Cluster(id=ref.cluster, name=binding.name, state=binding.state, connection_state=parts.connections.state(ref))
        for ref, binding in sorted(parts.registry.clusters.items(), key=lambda entry: entry[0].cluster)
        if ref.tenant == caller.member.tenant
    )
    return reply(Clusters(clusters=found, total=len(found)))
