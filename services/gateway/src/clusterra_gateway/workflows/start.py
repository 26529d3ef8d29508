"""Starts workflows: stores a workflow and submits its first jobs."""

import asyncio
import hashlib
import secrets
from contextlib import suppress
from dataclasses import replace

import structlog
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.keyed_turns import KeyedTurns

from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, KeyReused, Unavailable
from clusterra_gateway.identity.access.unix_users import Person
from clusterra_gateway.submission.planning import Planning
from clusterra_gateway.submission.staged_files import StagingPlan
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.models import ScriptedWorkflow, StepRequest, check_sizes
from clusterra_gateway.workflows.workflow import Workflow, WorkflowJob, WorkflowJobSpec
from clusterra_gateway.workflows.workflow_records import WorkflowRecords

log = structlog.get_logger()

MAX_WORKFLOWS = 1000
"""The most workflows of one member that are kept on a cluster; each may hold megabytes."""
SURPLUS = 50
"""How many more there may be for a moment, because several were started at the same time."""
ROOM_SECONDS = 15.0
"""How long a start may look for a workflow that has ended, to make room, and wait until other starts have looked."""
MAX_WAITING = 20
"""How many starts of a member on a cluster wait until others of theirs have looked."""
ADVANCE_SECONDS = 30.0
"""How long a request waits for the submits of its workflow. The sweep submits the rest."""


def _too_many(_present: int) -> Unavailable:
    return Unavailable("too many of your runs are being started", hint="send the request again in a moment")


class WorkflowStarts:
    """Starts workflows of members."""

    def __init__(self, records: WorkflowRecords, controller: WorkflowController, planning: Planning) -> None:
        self._records = records
        self._controller = controller
        self._planning = planning
        self._looks = KeyedTurns[tuple[ClusterRef, str]](1, MAX_WAITING, _too_many)
        """By cluster and member: to look at a thousand runs takes seconds of work."""

    async def start(
        self, owner: Person, ref: ClusterRef, wanted: ScriptedWorkflow, run_id: str, *, digest: str
    ) -> tuple[Workflow, bool]:
        """Starts a workflow, unless one with its id exists. Returns it, and whether it existed before.

        `digest` identifies the request. Raises InvalidRequest, TooLarge, Conflict, KeyReused, Unavailable, and for
        staged files Forbidden and NotFound.
        """
        jobs, specs = wanted.planned()
        workflow = Workflow(
            id=run_id,
            name=wanted.run_name,
            member=owner.member.id,
            user=owner.slurm_user,
            created_at=now(),
            digest=digest,
            steps=jobs,
        )
        known = await self._records.read(ref, run_id)
        if known is None:
            specs = await self._with_files(owner, ref, wanted, jobs, specs)
            await self._make_room(ref, owner.member.id)
            if not await self._records.create(ref, workflow, specs):
                known = await self._records.read(ref, run_id)
                if known is None:
                    raise Unavailable("the run could not be stored", hint="send the request again")
        if known is not None and known.workflow.digest != digest:
            raise KeyReused(
                "this Idempotency-Key was used for a different request", hint="use a new key for each new run"
            )
        log.info("run_started", run_id=run_id, steps=len(jobs), repeated=known is not None)
        return await self.advanced(ref, run_id) or workflow, known is not None

    async def _make_room(self, ref: ClusterRef, member: str) -> None:
        """Removes the oldest workflows of a member that have ended, where there are as many as are kept.

        Only one start of a member on a cluster does so at a time.

        Raises Conflict where too many have not ended, and Unavailable.
        """
        try:
            async with asyncio.timeout(ROOM_SECONDS), self._looks.turn((ref, member)):
                kept = await self._records.oldest(ref, member, MAX_WORKFLOWS + SURPLUS)
                surplus = len(kept) - MAX_WORKFLOWS + 1
                for run_id in kept:
                    if surplus <= 0:
                        return
                    surplus -= await self._removed_if_over(ref, run_id)
        except TimeoutError:
            raise Unavailable(
                "it takes too long to see which of your runs have ended", hint="send the request again in a moment"
            ) from None
        if surplus > 0:
            raise Conflict(
                f"{MAX_WORKFLOWS} runs of yours have not ended, the most that are kept",
                hint="cancel some of them, or wait for their end",
            )

    async def _removed_if_over(self, ref: ClusterRef, run_id: str) -> bool:
        stored = await self._records.readable(ref, run_id)
        if stored is not None and not stored.workflow.over:
            # Nobody may have read it since its jobs ended.
            await self._controller.refreshed(ref, stored.workflow, reader=stored.workflow.member)
            stored = await self._records.readable(ref, run_id)
        return stored is not None and stored.workflow.over and await self._records.remove(ref, stored)

    async def _with_files(
        self,
        owner: Person,
        ref: ClusterRef,
        wanted: ScriptedWorkflow,
        jobs: tuple[WorkflowJob, ...],
        specs: tuple[WorkflowJobSpec, ...],
    ) -> tuple[WorkflowJobSpec, ...]:
        """The specifications of the jobs, with the files that are staged for them, looked up and checked."""
        places = {each.step_id: index for index, each in enumerate(wanted.steps)}
        planned: list[WorkflowJobSpec] = []
        for job, spec in zip(jobs, specs, strict=True):
            request = wanted.steps[places[job.step_id]]
            plan = await self._plan(owner, ref, request, places[job.step_id]) if request.staged else None
            planned.append(spec.model_copy(update={"staging": plan}))
        check_sizes(tuple(planned))
        if any(each.staging is not None for each in planned):
            await self._planning.refuse_without_right(owner, ref)
        return tuple(planned)

    async def _plan(self, owner: Person, ref: ClusterRef, step: StepRequest, index: int) -> StagingPlan:
        try:
            return await self._planning.look_up(owner, ref, step.submission)
        except InvalidRequest as error:
            fields = tuple(
                replace(each, place=f"#/steps/{index}{each.place.removeprefix('#')}") for each in error.errors
            )
            raise InvalidRequest(f"step {step.step_id}: {error.detail}", hint=error.hint, errors=fields) from None

    async def advanced(self, ref: ClusterRef, run_id: str) -> Workflow | None:
        """Advances a workflow for at most ADVANCE_SECONDS, and returns it. The sweep does the rest."""
        with suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(ADVANCE_SECONDS):
                return await self._controller.advance(ref, run_id)
        stored = await self._records.read(ref, run_id)
        return stored.workflow if stored is not None else None


def run_id_of(ref: ClusterRef, member: str, key: str | None) -> str:
    """The id of a new workflow: with an Idempotency-Key always the same."""
    if key is None:
        return secrets.token_hex(16)
    return hashlib.sha256(f"{ref.key}#{member}#{key}".encode()).hexdigest()[:32]
