"""Advances all unfinished workflows: submits their jobs and reads how they ended.

Any replica may advance any of them. A workflow whose jobs are all submitted is read again soon after one of them ends,
and every five minutes in case an event was missed.
"""

import structlog
from clusterra_contracts.events import JOB_ENDS, Event
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper, Unfinished

from clusterra_gateway.bus.job_end_wakeups import PACE_SECONDS, JobEndWakeups, RecordKey
from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.workflows import transitions
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.workflow_records import WorkflowRecords

log = structlog.get_logger()

WAKING = JOB_ENDS
INTERVAL_SECONDS = 5.0
WORKFLOW_SECONDS = 60.0
"""A workflow that takes longer is advanced further in the next round."""
CLUSTERS_AT_A_TIME = 32
BOUNDS = Bounds(CLUSTERS_AT_A_TIME, per_cluster=1, failures_in_a_round=2)


class WorkflowSweep:
    """Advances unfinished workflows every few seconds, and soon after a job has ended."""

    def __init__(self, records: WorkflowRecords, controller: WorkflowController) -> None:
        self._records = records
        self._controller = controller
        self._wakeups = JobEndWakeups()

    def sweeper(self) -> Sweeper[RecordKey]:
        """Advances those that are due, one workflow of a cluster at a time."""
        failures = (StoreError, Unavailable)
        sweep = Sweep("runs", self._listed, self.advance, self._wakeups.place, failures, self._wakeups.woken)
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, WORKFLOW_SECONDS, wake_seconds=PACE_SECONDS), BOUNDS)

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Advance the workflow of a job soon that has ended."""
        self._wakeups.on_event(ref, event)

    async def _listed(self) -> list[RecordKey]:
        return self._wakeups.due(await self._records.unfinished())

    async def advance(self, key: RecordKey) -> None:
        """Advances a workflow. Raises Unfinished if it needs another round, StoreError, Unavailable."""
        # One that is not advanced to its end is due in the next round.
        with self._wakeups.visit(key, otherwise_seconds=0.0):
            await self._advance(key)

    async def _advance(self, key: RecordKey) -> None:
        ref, run_id = key
        workflow = await self._controller.advance(ref, run_id)
        if workflow is None:
            return
        if workflow.over:
            # Its mark would have been removed by whoever stored its end, but for the release before.
            await self._records.remove_mark(ref, run_id)
            return
        if transitions.has_work(workflow):
            self._wakeups.end_wait(key)
            raise Unfinished
        try:
            workflow = await self._controller.refreshed(ref, workflow, reader=None, strict=True)
        except RpcFailed as failed:
            log.warning("run_not_read", run_id=run_id, reason=failed.error.detail)
            if failed.error.kind == "unavailable":
                raise Unfinished from None
        if not workflow.over:
            self._wakeups.wait(key, transitions.worth_reading(workflow))
