"""The room of tenants: what operators do with tenants and their clusters, and deletion."""

from clusterra_runtime import catalogue
from clusterra_runtime.outbound import Outbound

from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.people.invitations import Invitations
from clusterra_gateway.room import Room
from clusterra_gateway.tenants.cluster_handlers import TenantClusterHandlers
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.handlers import TenantHandlers
from clusterra_gateway.tenants.removal import ClusterRemoval
from clusterra_gateway.tenants.tenant_clusters import TenantClusters
from clusterra_gateway.tenants.tenant_removal import DeletionSweep, TenantRemoval
from clusterra_gateway.tenants.tenants import Tenants
from clusterra_gateway.workflows.workflow_records import WorkflowRecords


def room(
    connections: Connections,
    access: Access,
    projection: Projection,
    invitations: Invitations,
    workflows: WorkflowRecords,
    once: AnswerOnce,
) -> Room:
    """What this room offers. Raises CatalogueInvalid."""
    settings, directory, bus = connections.settings, connections.directory, connections.bus
    shapes = None if settings.catalogue_file is None else catalogue.load(settings.catalogue_file)
    tenants, deletions = Tenants(directory, bus.registry), Deletions(directory, bus.registry)
    clusters = TenantClusters(directory, bus.registry, shapes, Outbound(settings.outbound_allowed))
    removal = ClusterRemoval(directory, bus.client, bus.registry, workflows, settings.deletion_wait_seconds)
    sweep = DeletionSweep(directory.store, removal, TenantRemoval(directory, deletions, bus.logins))
    return Room(
        routes=routes_of(
            TenantHandlers(tenants, invitations, deletions, projection, once),
            TenantClusterHandlers(clusters, directory, deletions, projection, once),
            access=access,
        ),
        background={"deletions": sweep.sweeper().run},
    )
