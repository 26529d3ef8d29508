"""Advances the workflows that a gateway left unfinished, because it died or because Slurm did not answer."""

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper, Unfinished

from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.transitions import has_work
from clusterra_gateway.workflows.workflow_records import WorkflowRecords

INTERVAL_SECONDS = 5.0
PAGE = 1000
WORKFLOW_SECONDS = 60.0
"""A workflow that takes longer is advanced further in the next round."""
CLUSTERS_AT_A_TIME = 32
BOUNDS = Bounds(CLUSTERS_AT_A_TIME, per_cluster=1, failures_in_a_round=2)

type _Workflow = tuple[ClusterRef, str]


class WorkflowSweep:
    """Advances all unfinished workflows. Any worker may advance any of them."""

    def __init__(self, records: WorkflowRecords, controller: WorkflowController) -> None:
        self._records = records
        self._controller = controller

    def sweeper(self) -> Sweeper[_Workflow]:
        """Advances them all every few seconds, one workflow of a cluster at a time."""
        failures = (StoreError, Unavailable)
        sweep = Sweep("runs", self.unfinished, self.advance, _place, failures)
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, WORKFLOW_SECONDS), BOUNDS)

    async def unfinished(self) -> list[_Workflow]:
        """The unfinished workflows. Raises StoreError."""
        workflows, cursor = list[_Workflow](), None
        while True:
            found, cursor = await self._records.unfinished(PAGE, cursor)
            workflows += found
            if cursor is None:
                return workflows

    async def advance(self, place: _Workflow) -> None:
        """Advances a workflow. Raises Unfinished if it needs another round, StoreError, Unavailable."""
        workflow = await self._controller.advance(*place)
        if workflow is not None and has_work(workflow):
            raise Unfinished


def _place(workflow: _Workflow) -> Place:
    ref, workflow_id = workflow
    return Place(ref.tenant, ref.cluster, workflow_id)
