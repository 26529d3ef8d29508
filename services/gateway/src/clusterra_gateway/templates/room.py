"""The room of templates: the catalogue, the templates of tenants, their launches, and schedules."""

from dataclasses import dataclass

from clusterra_runtime.nats.lease import Leases
from clusterra_runtime.nats.lease_terms import Lease

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room
from clusterra_gateway.templates.authoring import Authoring
from clusterra_gateway.templates.launches import Launches
from clusterra_gateway.templates.library import Library
from clusterra_gateway.templates.reading import Reading
from clusterra_gateway.templates.records import TemplateRecords
from clusterra_gateway.templates.schedule_handlers import Schedules
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.templates.scheduled_submits import ScheduledSubmits
from clusterra_gateway.templates.table import TEMPLATES
from clusterra_gateway.templates.ticking import Ticking


@dataclass(frozen=True)
class TemplateParts:
    """What this room and others use."""

    records: TemplateRecords
    library: Library
    launches: Launches
    schedules: ScheduleRecords
    scheduled: ScheduledSubmits


def room(connections: Connections, access: Access, parts: TemplateParts, ticking: Ticking, once: AnswerOnce) -> Room:
    """What this room offers. One replica at a time submits the schedules that are due."""

    async def lead(_lease: Lease) -> None:
        await ticking.sweeper().run()

    lease = Leases(connections.bus.client, "gateway", 1, lead, instance=connections.settings.instance)
    return Room(
        routes=routes_of(
            Reading(parts.library, parts.launches),
            Authoring(parts.records, parts.library, once),
            Schedules(parts.schedules, parts.launches, parts.scheduled, once, connections.bus.feed),
            access=access,
        ),
        background={
            "schedules": lease.run,
            "templates outbox": lambda: connections.directory.outbox.relay(TEMPLATES),
        },
    )
