"""Why a job waits, where it runs, or how it ended: `GET /v1/clusters/{cluster_id}/jobs/{job_id}/why`.

The scaler explains what waits and runs. What it does not know yet, or no more, is told from Slurm's records, and after
them from the archive of events.
"""

from datetime import datetime, timedelta
from typing import Literal

from aiohttp import web
from clusterra_contracts.events import JOB_ENDS, JobFact
from clusterra_contracts.identity import ClusterRef, JobId, Moment, now
from clusterra_contracts.job_states import LIVE
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
from clusterra_gateway.staging.staging_records import JobStagings
from clusterra_gateway.submission.staged_files import JobStaging

WHY = f"{CLUSTER}/jobs/{{job_id}}/why"


api = cluster_routes(JOB_ID, reads=Needs("jobs:read"))


class JobExplanation(ResponseBody):
    """Why a job waits, where it runs, or how it ended.

    Of a waiting or running job: Slurm's `reason`, its `cause`, the planned `places`, what was `bought` for it, and
    `expected_start`. Of a job that has ended: `final_state`, `exit_code`, `signal`, `ended_at`. `usd_per_hour` is its
    share of the price of its workers. `generation` is that of the desired state, and 0 where the scaler has not
    planned with the job yet, or no longer does. `as_of` is when this was true.
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
    shadow: bool = False
    generation: int = 0
    snapshot_generation: int = 0
    as_of: Moment
    final_state: str | None = None
    exit_code: int | None = None
    """Null also for a job that a signal, a cancel or a limit ended."""
    signal: int | None = None
    ended_at: Moment | None = None


def from_job(job: Job, at: datetime) -> JobExplanation:
    """Explain a job from Slurm's record of it."""
    if job.state == "PENDING":
        text = "It has just been submitted: the scaler has not planned with it yet."
        return JobExplanation(job_id=job.job_id, state="pending", reason=job.reason, text=text, as_of=at)
    if job.state in LIVE:
        return JobExplanation(
            job_id=job.job_id,
            state="running",
            text=f"It runs on {_names(job.nodes)}.",
            places=tuple(JobPlace(kind="node", worker=name) for name in job.nodes[:100]),
            started_at=job.started_at,
            as_of=at,
        )
    return JobExplanation(
        job_id=job.job_id,
        state="ended",
        reason=job.reason,
        text=_end_text(job.state, job.reason, job.exit_code, job.signal, job.started_at),
        started_at=job.started_at,
        as_of=at,
        final_state=job.state,
        exit_code=job.exit_code,
        signal=job.signal,
        ended_at=job.ended_at,
    )


def from_fact(fact: JobFact, at: datetime) -> JobExplanation:
    """Explain a job that has ended from the event of its end."""
    return JobExplanation(
        job_id=fact.job_id,
        state="ended",
        reason=fact.reason,
        text=_end_text(fact.state, fact.reason, fact.exit_code, None, fact.started_at),
        started_at=fact.started_at,
        as_of=at,
        final_state=fact.state,
        exit_code=fact.exit_code,
        ended_at=fact.ended_at,
    )


def _names(nodes: tuple[str, ...]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"


def _end_text(state: str, reason: str, exit_code: int | None, signal: int | None, started_at: datetime | None) -> str:
    parts = [f"It has ended as {state}"]
    if started_at is None:
        parts.append("without a start")
    elif exit_code is not None:
        parts.append(f"with the exit code {exit_code}")
    elif signal is not None:
        parts.append(f"by the signal {signal}")
    return " ".join(parts) + (f": {reason}." if reason else ".")


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

        Of a waiting job: what was bought for it, its expected start, and its cost per hour.
        """
        job = job_id(request)
        try:
            explanation = await self._scaler.why(ref, caller.viewer, job)
        except RpcFailed as unexplained:
            if unexplained.error.kind not in ("not_found", "unavailable"):
                raise
            told = await self._from_records(ref, caller.viewer, job, unexplained)
        else:
            told = JobExplanation(**explanation.model_dump())
        staging = await self._stagings.of_job(ref, job, age=timedelta(0))
        return json_response(told if staging is None else with_staging(told, staging))

    async def _from_records(
        self, ref: ClusterRef, viewer: Viewer, job_id: JobId, unexplained: RpcFailed
    ) -> JobExplanation:
        """Explain from what is recorded of the job. Raises RpcFailed.

        While no scaler answers, only a job that has ended is explained: of any other it would know more.
        """
        try:
            found = from_job(await self._slurm.job(ref, viewer, job_id), now())
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
        asked = ReadHistory(viewer=viewer, kinds=tuple(sorted(JOB_ENDS)), subject=job_id, newest_first=True, limit=1)
        try:
            page = await self._archive.history(ref, asked)
        except RpcFailed:
            return None
        for event in page.events:
            if isinstance(event.data, JobFact) and event.kind in JOB_ENDS and may_see(viewer, event.data):
                return from_fact(event.data, now())
        return None
