"""The room of workflows: runs of jobs that depend on each other."""

from dataclasses import dataclass

from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room
from clusterra_gateway.workflows.advance import RunWork
from clusterra_gateway.workflows.handlers import Runs
from clusterra_gateway.workflows.models import TemplateSteps
from clusterra_gateway.workflows.run_records import RunRecords
from clusterra_gateway.workflows.start import RunStarts
from clusterra_gateway.workflows.sweep import RunSweep


@dataclass(frozen=True)
class WorkflowParts:
    """What other rooms use of this one."""

    records: RunRecords
    work: RunWork
    starts: RunStarts


def room(access: Access, parts: WorkflowParts, templates: TemplateSteps) -> Room:
    """What this room offers."""
    return Room(
        routes=routes_of(Runs(parts.records, parts.work, parts.starts, templates), access=access),
        background={"runs": RunSweep(parts.records, parts.work).sweeper().run},
    )
