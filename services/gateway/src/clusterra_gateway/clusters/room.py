"""The room of clusters: their state and fleet, their policy, and their edge-agents."""

from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.bus.conditions import Conditions
from clusterra_gateway.clusters import fleet_routes, management, routes
from clusterra_gateway.clusters.agents import key_rotation
from clusterra_gateway.clusters.agents import routes as agents
from clusterra_gateway.clusters.agents.exchange import AgentExchange
from clusterra_gateway.clusters.agents.keys import ROTATED, AgentKeys
from clusterra_gateway.clusters.queue_summary import QueueSummaries
from clusterra_gateway.connections import Connections
from clusterra_gateway.idempotency.answer_once import AnswerOnce
from clusterra_gateway.identity.access import Access
from clusterra_gateway.room import Observed, Room


def room(connections: Connections, access: Access, projection: Projection, once: AnswerOnce) -> Room:
    """What this room offers."""
    bus, directory = connections.bus, connections.directory
    keys = AgentKeys(directory, bus.registry)
    queues = QueueSummaries(bus.client, bus.registry)
    return Room(
        routes=(
            *routes.routes(access, bus.registry, bus.edges, Conditions(bus.client), queues),
            *management.routes(access, directory, projection),
            *key_rotation.routes(access, directory, once),
            *fleet_routes.routes(access, bus.archive, bus.client),
            *agents.routes(keys, AgentExchange(bus.client, bus.registry, connections.secrets)),
        ),
        observers=(Observed(ROTATED, keys.on_event),),
    )
