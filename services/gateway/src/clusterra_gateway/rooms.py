"""All rooms of the gateway. A new room gets a line here.

The router, `/v1/api-routes` and the OpenAPI document are made from the rooms' routes, in this order.
"""

from clusterra_gateway.accounts import room as accounts
from clusterra_gateway.bus_credentials import room as bus_credentials
from clusterra_gateway.clusters import room as clusters
from clusterra_gateway.console import room as console
from clusterra_gateway.directory import room as directory
from clusterra_gateway.events import room as events
from clusterra_gateway.files import room as files
from clusterra_gateway.http.routes import api_description, api_page
from clusterra_gateway.identity import room as identity
from clusterra_gateway.jobs import room as jobs
from clusterra_gateway.money import room as money
from clusterra_gateway.parts import Parts
from clusterra_gateway.people import room as people
from clusterra_gateway.program_sign_in import room as program_sign_in
from clusterra_gateway.room import Room
from clusterra_gateway.sessions import room as sessions
from clusterra_gateway.shared_links import room as shared_links
from clusterra_gateway.slurmrestd import room as slurmrestd
from clusterra_gateway.staging import room as staging
from clusterra_gateway.templates import room as templates
from clusterra_gateway.tenants import room as tenants
from clusterra_gateway.webhooks import room as webhooks
from clusterra_gateway.workflows import room as workflows


def rooms(parts: Parts) -> tuple[Room, ...]:
    """What each room offers. It gets exactly the objects that it uses."""
    connections, callers, once = parts.connections, parts.identity, parts.once
    access, bus = callers.access, connections.bus
    return (
        accounts.room(connections.directory, bus.client, bus.registry, parts.projection),
        identity.room(connections, callers, parts.issuers, parts.directory.provisioned, once),
        program_sign_in.room(connections, callers),
        people.room(connections, callers, parts.membership, parts.invitations, once),
        directory.room(connections, callers, parts.directory, parts.membership),
        clusters.room(connections, access, parts.projection, once),
        tenants.room(connections, access, parts.projection, parts.invitations, parts.workflows.records, once),
        jobs.room(connections, access, parts.jobs, parts.templates.launches, once),
        shared_links.room(connections, callers, parts.jobs.stagings, once),
        workflows.room(access, parts.workflows, parts.templates.launches, connections.bus.feed),
        templates.room(connections, access, parts.templates, parts.ticking, once),
        sessions.room(connections, callers, parts.templates.launches, parts.jobs.desk),
        slurmrestd.room(access, bus.slurm, parts.jobs),
        staging.room(connections, parts.files, parts.stagings),
        files.room(connections, access, parts.files, once),
        events.room(connections, access),
        webhooks.room(connections, access, once),
        bus_credentials.room(connections, access),
        money.room(connections, callers, parts.reservations),
        console.room(connections, access, parts.site),
        Room(routes=(*api_description.ROUTES, *api_page.ROUTES)),
    )
