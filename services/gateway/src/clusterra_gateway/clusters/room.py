"""The room of clusters: their state and fleet, their policy, and their edge-agents."""

from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.bus.cluster_health import Conditions
from clusterra_gateway.clusters.agents.heartbeats import AgentHeartbeats
from clusterra_gateway.clusters.agents.keys import ROTATED, AgentKeyRotation, AgentKeys
from clusterra_gateway.clusters.fleet import FleetHandlers
from clusterra_gateway.clusters.fleet_hours import FleetHourHandlers
from clusterra_gateway.clusters.handlers import ClusterHandlers, ClusterManagement
from clusterra_gateway.clusters.hooks.handlers import Hooks
from clusterra_gateway.clusters.hooks.telling import Telling
from clusterra_gateway.clusters.queue_summary import QueueSummaries
from clusterra_gateway.clusters.simulations import Simulations
from clusterra_gateway.clusters.workers import WorkerHandlers
from clusterra_gateway.connections import Connections
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Observed, Room


def room(connections: Connections, access: Access, projection: Projection, once: AnswerOnce) -> Room:
    """What this room offers."""
    bus, directory = connections.bus, connections.directory
    keys = AgentKeys(directory, bus.registry, ClientAddresses(connections.settings.trusted_proxies))
    queues = QueueSummaries(bus.client, bus.registry)
    return Room(
        routes=(
            *routes_of(
                ClusterHandlers(bus.registry, bus.edges, Conditions(bus.client), queues),
                ClusterManagement(directory, projection),
                AgentKeyRotation(directory, once),
                FleetHandlers(bus.archive, bus.client, bus.registry, bus.feed),
                FleetHourHandlers(bus.archive, bus.client, bus.registry),
                WorkerHandlers(bus.client, bus.registry, bus.feed),
                Simulations(bus.scaler, bus.registry),
                access=access,
            ),
            *routes_of(
                AgentHeartbeats(bus.client, bus.registry, connections.secrets),
                Hooks(bus.registry, Telling(directory.outbox, bus.archive)),
                access=keys,
            ),
        ),
        observers=(Observed(ROTATED, keys.on_event),),
    )
