"""The room of jobs: submit, read, change and cancel them, and read their output."""

from dataclasses import dataclass

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce, ChangeOnce
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.jobs.cancel_many import CancelMany
from clusterra_gateway.jobs.changes import JobChangeHandlers
from clusterra_gateway.jobs.estimates import Estimates
from clusterra_gateway.jobs.explanations import Explanations
from clusterra_gateway.jobs.handlers import Jobs
from clusterra_gateway.jobs.output.handlers import Outputs
from clusterra_gateway.jobs.scripts import Scripts
from clusterra_gateway.jobs.timeline import Timelines
from clusterra_gateway.money.quotas.admission import PricedUpdates
from clusterra_gateway.room import Room
from clusterra_gateway.staging.staging_records import JobStagings
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.templates.launches import Launches


@dataclass(frozen=True)
class JobParts:
    """With what jobs are submitted, changed and shown, in both shapes of the API."""

    desk: SubmitDesk
    updates: PricedUpdates
    stagings: JobStagings


def room(
    connections: Connections,
    access: Access,
    parts: JobParts,
    launches: Launches,
    once: AnswerOnce,
) -> Room:
    """What this room offers."""
    bus = connections.bus
    planned = Estimates(bus.slurm, bus.scaler)
    return Room(
        routes=routes_of(
            Jobs(bus, parts.desk, planned, launches, parts.stagings),
            Explanations(bus.slurm, bus.scaler, bus.archive, parts.stagings),
            Timelines(bus.slurm, bus.archive),
            Scripts(bus.slurm),
            planned,
            JobChangeHandlers(bus.slurm, parts.updates, ChangeOnce(connections.directory.store)),
            CancelMany(bus.slurm, once),
            Outputs(access, bus.slurm, bus.edge, bus.feed),
            access=access,
        )
    )
