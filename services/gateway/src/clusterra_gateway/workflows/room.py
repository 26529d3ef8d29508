"""The room of workflows: jobs that depend on each other, submitted and stored as one."""

from dataclasses import dataclass

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Observed, Room
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.handlers import Workflows
from clusterra_gateway.workflows.models import TemplateSteps
from clusterra_gateway.workflows.start import WorkflowStarts
from clusterra_gateway.workflows.sweep import WAKING, WorkflowSweep
from clusterra_gateway.workflows.table import RUNS
from clusterra_gateway.workflows.workflow_records import WorkflowRecords


@dataclass(frozen=True)
class WorkflowParts:
    """What other rooms use of this one."""

    records: WorkflowRecords
    controller: WorkflowController
    starts: WorkflowStarts


def room(access: Access, parts: WorkflowParts, templates: TemplateSteps, feed: EventFeed) -> Room:
    """What this room offers."""
    sweep = WorkflowSweep(parts.records, parts.controller)
    return Room(
        routes=routes_of(Workflows(parts.records, parts.controller, parts.starts, templates, feed), access=access),
        background={
            "runs": sweep.sweeper().run,
            "runs outbox": lambda: parts.controller.directory.outbox.relay(RUNS),
        },
        background_observers=(Observed(WAKING, sweep.on_event),),
    )
