"""The room of shared links: jobs that their owners show to people without an account."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.jobs.explanations import Explanations
from clusterra_gateway.jobs.output.whole import WholeOutput
from clusterra_gateway.room import Room
from clusterra_gateway.shared_links.handlers import LinkHandlers
from clusterra_gateway.shared_links.links import Links
from clusterra_gateway.shared_links.open_handlers import SharedJobHandlers
from clusterra_gateway.shared_links.opened_link import LinkAccess
from clusterra_gateway.shared_links.own_links import OwnLinkHandlers
from clusterra_gateway.staging.staging_records import JobStagings


def room(connections: Connections, identity: IdentityParts, stagings: JobStagings, once: AnswerOnce) -> Room:
    """What this room offers."""
    directory, bus = connections.directory, connections.bus
    explanations = Explanations(bus.slurm, bus.scaler, bus.archive, stagings)
    links = Links(directory)
    shown = SharedJobHandlers(bus.slurm, bus.ledger, explanations, WholeOutput(bus.edge))
    return Room(
        routes=(
            *routes_of(LinkHandlers(links, bus.slurm, once), OwnLinkHandlers(links), access=identity.access),
            *routes_of(shown, access=LinkAccess(identity, directory, bus.registry)),
        )
    )
