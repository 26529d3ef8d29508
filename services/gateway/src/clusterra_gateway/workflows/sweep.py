"""Goes on with all workflows that are not over: submits their jobs, and reads how they ended.

Any replica may go on with any of them. A workflow whose jobs are all submitted is looked at soon after the end of one
of them, and seldom for the case that an event was missed.
"""

import time

import structlog
from clusterra_contracts.events import JOB_ENDS, Event, JobFact
from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper, Unfinished

from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.workflows import transitions
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.workflow import Workflow
from clusterra_gateway.workflows.workflow_records import WorkflowRecords

log = structlog.get_logger()

WAKING = JOB_ENDS
INTERVAL_SECONDS = 5.0
PACE_SECONDS = 0.5
"""The shortest time between two looks, however many jobs end."""
WORKFLOW_SECONDS = 60.0
"""A workflow that takes longer is advanced further in the next round."""
WAITING_SECONDS = 300.0
"""How often a workflow is looked at when no event has told of the end of one of its jobs."""
SOON_SECONDS = 0.5
ARRAY_SECONDS = 5.0
"""How soon a workflow is looked at after the end of a task of an array: not at each of many."""
MAX_ENDED = 10_000
CLUSTERS_AT_A_TIME = 32
BOUNDS = Bounds(CLUSTERS_AT_A_TIME, per_cluster=1, failures_in_a_round=2)

type _Key = tuple[ClusterRef, str]
type _Job = tuple[ClusterRef, JobId]


class WorkflowSweep:
    """Looks for workflows that are not over every few seconds, and when a job has ended."""

    def __init__(self, records: WorkflowRecords, controller: WorkflowController) -> None:
        self._records = records
        self._controller = controller
        self._due: dict[_Key, float] = {}
        """When a workflow whose jobs are all submitted is looked at again, by the monotonic clock."""
        self._waiting: dict[_Job, _Key] = {}
        """The workflows that wait for the end of a job."""
        self._told: set[_Key] = set()
        """Those of whose jobs an event has told an end since the last look."""
        self._ended = BoundedCache[_Job, float](MAX_ENDED)
        """The jobs that have ended lately, each with the seconds after which its workflow is looked at.

        One may end before a workflow is known to wait for it.
        """
        self._sweep = Sweep("runs", self._listed, self.advance, self._place, failures=(StoreError, Unavailable))

    def sweeper(self) -> Sweeper[_Key]:
        """Goes on with those that are due, one workflow of a cluster at a time."""
        return Sweeper(self._sweep, Pace(INTERVAL_SECONDS, WORKFLOW_SECONDS, wake_seconds=PACE_SECONDS), BOUNDS)

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Look soon at the workflow of a job that has ended."""
        if not isinstance(event.data, JobFact):
            return
        number, task, _ = event.data.job_id.partition("_")
        seconds = ARRAY_SECONDS if task else SOON_SECONDS
        place = self._waiting.get((ref, number))
        if place is None:
            self._ended.put((ref, number), seconds)
            return
        self._told.add(place)
        due = time.monotonic() + (seconds if task else 0.0)
        self._due[place] = min(self._due.get(place, due), due)
        if not task:
            self._sweep.woken.set()

    async def _listed(self) -> list[_Key]:
        places = await self._records.unfinished()
        there = set(places)
        self._due = {place: at for place, at in self._due.items() if place in there}
        self._waiting = {job: place for job, place in self._waiting.items() if place in there}
        self._told &= there
        at = time.monotonic()
        return [place for place in places if self._due.get(place, 0.0) <= at]

    def _place(self, key: _Key) -> Place:
        ref, run_id = key
        return Place(ref.tenant, ref.cluster, run_id, routine=key in self._due and key not in self._told)

    async def advance(self, key: _Key) -> None:
        """Goes on with a workflow. Raises Unfinished if it needs another round, StoreError, Unavailable."""
        ref, run_id = key
        self._told.discard(key)
        self._due.pop(key, None)
        workflow = await self._controller.advance(ref, run_id)
        if workflow is None or workflow.over:
            return
        if transitions.has_work(workflow):
            raise Unfinished
        try:
            workflow = await self._controller.refreshed(ref, workflow, reader=None, strict=True)
        except RpcFailed as failed:
            log.warning("run_not_read", run_id=run_id, reason=failed.error.detail)
            if failed.error.kind == "unavailable":
                raise Unfinished from None
        if not workflow.over:
            self._wait(key, workflow)

    def _wait(self, key: _Key, workflow: Workflow) -> None:
        """Look again when a job has ended. An event may have told so since the look began."""
        ref, _ = key
        seconds = SOON_SECONDS if key in self._told else WAITING_SECONDS
        for job_id in transitions.worth_reading(workflow):
            self._waiting[ref, job_id] = key
            seconds = min(seconds, self._ended.pop((ref, job_id)) or WAITING_SECONDS)
        self._due[key] = time.monotonic() + seconds
        if seconds <= SOON_SECONDS:
            self._sweep.woken.set()
