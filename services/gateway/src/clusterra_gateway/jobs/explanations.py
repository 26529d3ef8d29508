"""Why a job waits, where it runs, or how it ended: `GET /v1/clusters/{cluster_id}/jobs/{job_id}/why`.

The scaler explains what waits and runs. What it does not know yet, or no more, is told from Slurm's records, and after
them from the archive of events.
"""

from collections.abc import Mapping, Set
from datetime import datetime, timedelta
from typing import Literal

from aiohttp import web
from clusterra_contracts.events import JOB_ENDS, Fact, JobActionFact, JobFact
from clusterra_contracts.identity import ClusterRef, JobId, Moment, now
from clusterra_contracts.job_states import DIRECTORY_NOT_ENTERED, FILES_NOT_OPENED, LIVE, OUT_OF_MEMORY
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_contracts.rpc.visibility import may_see
from clusterra_contracts.rpc.why import Cause, JobPlace, Purchase
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import HistoryRequests, ScalerRequests, SlurmRequests
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.parameters import JOB_ID, job_id
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.jobs.alternatives import ShapeAlternative
from clusterra_gateway.jobs.past_alternatives import past_alternatives
from clusterra_gateway.jobs.stages import SECOND, names_of
from clusterra_gateway.staging.staging_records import JobStagings
from clusterra_gateway.submission.staged_files import JobStaging

WHY = f"{CLUSTER}/jobs/{{job_id}}/why"


api = cluster_routes(JOB_ID, reads=Needs("jobs:read"))


class JobExplanation(ResponseBody):
    """Why a job waits, where it runs, or how it ended.

    Of a waiting or running job: Slurm's `reason`, its `cause`, the planned `places`, what was `bought` for it, and
    `expected_start`. Of a job that has ended: `final_state`, `exit_code`, `signal`, `cancelled_by`, `ended_at`.
    `usd_per_hour` is its share of the price of its workers. `generation` is that of the desired state, and 0 where the
    scaler has not planned with the job yet, or no longer does. `alternatives` are the shapes of the cluster, the
    nearest first, 20 at most: none where the planner does not plan for the job. Of a job that has ended they are the
    nearest 5 of the time at which workers were last bought for it, `alternatives_as_of`, at the prices, limits and
    failures of then, for a job with the same request: none where it ran on workers that were there or had been ordered.
    `as_of` is when the rest was true.
    """

    job_id: JobId
    state: Literal["pending", "running", "ended"]
    reason: str = ""
    cause: Cause | None = None
    text: str
    places: tuple[JobPlace, ...] = ()
    bought: tuple[Purchase, ...] = ()
    started_at: Moment | None = None
    expected_start: Moment | None = None
    usd_per_hour: float | None = None
    alternatives: tuple[ShapeAlternative, ...] = ()
    alternatives_as_of: Moment | None = None
    """When the shapes were compared; null where this is `as_of`."""
    shadow: bool = False
    generation: int = 0
    snapshot_generation: int = 0
    as_of: Moment
    final_state: str | None = None
    exit_code: int | None = None
    """Null also for a job that a signal, a cancel or a limit ended."""
    signal: int | None = None
    cancelled_by: str | None = None
    """Who cancelled it, where that is known."""
    ended_at: Moment | None = None


def from_job(job: Job, at: datetime) -> JobExplanation:
    """Explain a job from Slurm's record of it."""
    if job.state == "PENDING":
        text = "It has just been submitted: the scaler has not planned with it yet."
        return JobExplanation(job_id=job.job_id, state="pending", reason=job.reason, text=text, as_of=at)
    if job.state in LIVE:
        on, suspended = _names(job.nodes), job.state == "SUSPENDED"
        return JobExplanation(
            job_id=job.job_id,
            state="running",
            reason=job.reason,
            text=f"It is suspended on {on}: its processes are stopped." if suspended else f"It runs on {on}.",
            places=tuple(JobPlace(kind="node", worker=name) for name in job.nodes[:100]),
            started_at=job.started_at,
            as_of=at,
        )
    return JobExplanation(
        job_id=job.job_id,
        state="ended",
        reason=job.reason,
        text=_end_text(job, job.cancelled_by),
        started_at=job.started_at,
        as_of=at,
        final_state=job.state,
        exit_code=job.exit_code,
        signal=job.signal,
        cancelled_by=job.cancelled_by,
        ended_at=job.ended_at,
    )


def from_fact(fact: JobFact, cancelled_by: str | None, at: datetime) -> JobExplanation:
    """Explain a job that has ended from the event of its end. `cancelled_by`: who cancelled it, where that is known."""
    return JobExplanation(
        job_id=fact.job_id,
        state="ended",
        reason=fact.reason,
        text=_end_text(fact, cancelled_by),
        started_at=fact.started_at,
        as_of=at,
        final_state=fact.state,
        exit_code=fact.exit_code,
        cancelled_by=cancelled_by,
        ended_at=fact.ended_at,
    )


def _names(nodes: tuple[str, ...]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"


_NOT_BEGUN: Mapping[str, str] = {
    FILES_NOT_OPENED: (
        "It has failed before its script began: the output file could not be opened{files}, or that of its standard "
        "input. Give files in folders that exist and in which its user may write."
    ),
    DIRECTORY_NOT_ENTERED: (
        "It has failed before its script began: its working directory does not exist on its worker, or its user may "
        "not enter it. Make the folder, or give another one."
    ),
}
"""Texts by the reasons of jobs whose scripts never began."""


def _end_text(ended: Job | JobFact, cancelled_by: str | None) -> str:
    job = ended if isinstance(ended, Job) else None
    if not_begun := _NOT_BEGUN.get(ended.reason):
        files = dict.fromkeys(path for path in (job.standard_output, job.standard_error) if path) if job else ()
        return not_begun.format(files=files and f" ({' or '.join(files)})")
    parts = [f"It has ended as {ended.state}"]
    if ended.started_at is None:
        parts.append("without a start")
    elif ended.exit_code is not None:
        parts.append(f"with the exit code {ended.exit_code}")
    elif job is not None and job.signal is not None and not cancelled_by:
        parts.append(f"by the signal {job.signal}")
    if cancelled_by:
        parts.append(f"because {cancelled_by} cancelled it")
    text = " ".join(parts) + (f": {ended.reason}." if ended.reason else ".")
    return f"{text} It ran out of memory.{_memory(job)}" if ended.reason == OUT_OF_MEMORY else text


def _memory(job: Job | None) -> str:
    """What a job that ran out of memory had and asked for, as far as it is known."""
    if job is None or not (asked := job.memory_per_node_mib or job.memory_per_cpu_mib):
        return ""
    per = "node" if job.memory_per_node_mib else "CPU"
    had = f", and one task had {job.peak_memory_mib} MiB" if job.peak_memory_mib else ""
    return f" It asked for {asked} MiB for each {per}{had}: ask for more."


def with_staging(told: JobExplanation, staging: JobStaging) -> JobExplanation:
    """The explanation of a job that waits for its files, or that was cancelled because they did not come.

    It names no file: others may see why a job waits.
    """
    part = staging.stage_in
    if part is None or part.state == "done":
        return told
    if told.state == "pending" and part.state != "failed":
        return told.model_copy(update={"text": f"It is held until its files are staged in: {part.files} are there."})
    if part.state == "failed" and told.started_at is None:
        text = f"{part.failed_files} of its files could not be staged in, so it was cancelled: its `staging` says why."
        return told.model_copy(update={"text": text})
    return told


class Explanations:
    """The handler of explanations."""

    def __init__(
        self, slurm: SlurmRequests, scaler: ScalerRequests, archive: HistoryRequests, stagings: JobStagings
    ) -> None:
        self._stagings = stagings
        self._slurm = slurm
        self._scaler = scaler
        self._archive = archive

    @api.get("jobs_why", WHY, result=JobExplanation)
    async def why(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Explains why a job waits, where it runs, or how it ended.

        Of a waiting job: what was bought for it, its expected start, its cost per hour, and the alternatives:
        which other shapes the planner does not take for it, and why. Of a job that has ended, the alternatives are
        those of the time when workers were bought for it.
        """
        return json_response(await self.explained(ref, caller.viewer, job_id(request)))

    async def explained(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> JobExplanation:
        """The explanation of a job. Raises RpcFailed, with `not_found` for a job that the viewer may not see."""
        try:
            explanation = await self._scaler.why(ref, viewer, job_id)
        except RpcFailed as unexplained:
            if unexplained.error.kind not in ("not_found", "unavailable"):
                raise
            told = await self._from_records(ref, viewer, job_id, unexplained)
        else:
            alternatives = tuple(map(ShapeAlternative.of, explanation.alternatives))
            told = JobExplanation(**explanation.model_dump(exclude={"alternatives"}), alternatives=alternatives)
        staging = await self._stagings.of_job(ref, job_id, age=timedelta(0))
        return told if staging is None else with_staging(told, staging)

    async def _from_records(
        self, ref: ClusterRef, viewer: Viewer, job_id: JobId, unexplained: RpcFailed
    ) -> JobExplanation:
        """Explain from what is recorded of the job. Raises RpcFailed.

        While no scaler answers, only a job that has ended is explained: of any other it would know more.
        """
        try:
            job = await self._slurm.job(ref, viewer, job_id)
            if job.state == "CANCELLED" and job.cancelled_by is None:
                cancelled_by = await self._cancelled_by(ref, viewer, job_id, job.submitted_at)
                job = job.model_copy(update={"cancelled_by": cancelled_by})
            found = from_job(job, now())
            if found.state == "ended":
                found = await self._with_past_alternatives(ref, found, job)
        except RpcFailed as failed:
            if failed.error.kind not in ("not_found", "unavailable"):
                raise
            ended = await self._from_archive(ref, viewer, job_id)
            if ended is None:
                raise (failed if unexplained.error.kind == "not_found" else unexplained) from None
            return ended
        if found.state != "ended" and unexplained.error.kind == "unavailable":
            raise unexplained
        return found

    async def _from_archive(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> JobExplanation | None:
        fact = await self._newest(ref, viewer, job_id, JOB_ENDS)
        if not isinstance(fact, JobFact):
            return None
        cancelled = fact.state == "CANCELLED"
        by = await self._cancelled_by(ref, viewer, job_id, fact.submitted_at) if cancelled else None
        return await self._with_past_alternatives(ref, from_fact(fact, by, now()), fact)

    async def _with_past_alternatives(
        self, ref: ClusterRef, told: JobExplanation, ended: Job | JobFact
    ) -> JobExplanation:
        """The explanation of a job that has ended, which its viewer may see, with the shapes compared for it."""
        before = (ended.started_at or ended.ended_at or told.as_of) + SECOND
        when, alternatives = await past_alternatives(self._archive, ref, ended.job_id, ended.submitted_at, before)
        return told.model_copy(update={"alternatives": alternatives, "alternatives_as_of": when})

    async def _cancelled_by(self, ref: ClusterRef, viewer: Viewer, job_id: JobId, submitted_at: datetime) -> str | None:
        """Who cancelled a job, or the whole array of a task, through Clusterra: Slurm may know only our own user."""
        for subject in names_of(job_id):
            fact = await self._newest(ref, viewer, subject, {"action.cancel"}, submitted_at)
            if isinstance(fact, JobActionFact) and not fact.tasks:
                return fact.actor
        return None

    async def _newest(
        self, ref: ClusterRef, viewer: Viewer, subject: str, kinds: Set[str], since: datetime | None = None
    ) -> Fact | None:
        """The newest event of these kinds about a job that the viewer may see; None also while the archive is away."""
        asked = ReadHistory(viewer=viewer, kinds=tuple(sorted(kinds)), subject=subject, newest_first=True, limit=1)
        try:
            page = await self._archive.history(ref, asked)
        except RpcFailed:
            return None
        for event in page.events:
            if event.kind in kinds and may_see(viewer, event.data) and (since is None or event.time >= since):
                return event.data
        return None
