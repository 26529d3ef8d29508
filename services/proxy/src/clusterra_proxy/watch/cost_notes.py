"""Notes what jobs cost in Slurm: `sacct -o admincomment` and `scontrol show job` show it.

`clusterra:cost_usd=0.012500` stands in the `AdminComment`, which users cannot write, of each job and array task: in
slurmctld while it runs, and in slurmdbd after its end, because slurmctld changes no job that has ended. So the cost
stays known when slurmctld has purged the job. Each round writes only what has changed, and a bounded number of notes:
the jobs whose notes are the oldest come first.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import JobId, now
from clusterra_contracts.rpc.costs import MAX_COST_JOBS, CostOfJob, JobCosts, ReadJobCosts
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import RpcFailed, call

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import Conflict, NotFound, Rejected, SlurmFailed
from clusterra_proxy.slurmrestd.notation.comment import PREFIX
from clusterra_proxy.slurmrestd.records import JobRecord

log = structlog.get_logger(__name__)

WRITES_PER_ROUND = 100
WRITE_PAUSE_SECONDS = 0.05
"""Between two writes, so that they hold up no request of people."""
FOLLOWED = timedelta(minutes=15)
"""For how long after its end a job's cost is looked at: events of its end may come late to the ledger."""
ROUNDS_BETWEEN = 3
"""Every so many rounds the cost of a job is looked at whose whole cost is noted."""
MAX_FOLLOWED = 20_000
MAX_RUN_DAYS = 60
"""The cost of longer runs counts from then on."""
LEDGER_SECONDS = 10.0


@dataclass(slots=True)
class _Job:
    """A job or task that runs or has ended recently, and what was noted of it."""

    record: JobRecord
    noted: str
    looked_at: float = 0.0
    """When its cost was last read, on the monotonic clock."""
    whole: bool = False
    """Whether the whole cost is noted, as far as the ledger knows it."""
    final: bool = False
    """Whether nothing is to be noted any more."""


class CostNotes:
    """The notes of one cluster. Only the replica that watches it writes them."""

    def __init__(self, cluster: Cluster, client: Client, every_seconds: float) -> None:
        """`every_seconds` 0: nothing is noted."""
        self._cluster = cluster
        self._client = client
        self._every_seconds = every_seconds
        self._jobs: dict[tuple[JobId, int], _Job] = {}
        self._problem = ""

    async def run(self) -> None:
        """Note costs again and again, until cancelled. A cluster that others own gets no notes."""
        if not self._every_seconds or self._cluster.binding.attached:
            return
        while True:
            # Not in step with other clusters: all of them ask the same ledger.
            await asyncio.sleep(self._every_seconds * random.uniform(1.0, 1.2))  # noqa: S311
            try:
                await self.note()
            except (SlurmFailed, RpcFailed) as failed:
                self._tell(str(failed))

    async def note(self) -> None:
        """Note what has changed. Raises SlurmFailed, RpcFailed while Slurm or the ledger cannot be asked."""
        self._follow()
        asked = self._due()
        if not asked:
            return
        costs = await self._costs(asked)
        writes = 0
        for job in asked:
            cost = costs.get(job.record.id) or _nothing(job.record)
            if cost is not None and await self._noted(job, cost):
                writes += 1
                await asyncio.sleep(WRITE_PAUSE_SECONDS)
            job.looked_at = time.monotonic()
            if writes >= WRITES_PER_ROUND:
                break
        self._problem = ""

    def _follow(self) -> None:
        """Take over the jobs that slurmctld has, and forget those that ended long ago or were requeued."""
        oldest, present = now() - FOLLOWED, set[tuple[JobId, int]]()
        for record in self._cluster.jobs:
            key = (record.id, record.restart_cnt)
            present.add(key)
            known = self._jobs.get(key)
            if known is not None:
                known.record = record
            elif _may_note(record) and len(self._jobs) < MAX_FOLLOWED:
                self._jobs[key] = _Job(record, record.admin_comment)
        self._jobs = {
            key: job
            for key, job in self._jobs.items()
            if (key in present if not job.record.ended else job.record.end_time and job.record.end_time > oldest)
        }

    def _due(self) -> list[_Job]:
        """The jobs whose costs are to be looked at, those first that were not for the longest, and free ones last."""
        recent = time.monotonic() - ROUNDS_BETWEEN * self._every_seconds
        due = (job for job in self._jobs.values() if not job.final and not (job.whole and job.looked_at > recent))
        return sorted(due, key=lambda job: (job.whole, bool(_nothing(job.record)), job.looked_at))[:MAX_COST_JOBS]

    async def _costs(self, jobs: Sequence[_Job]) -> dict[JobId, CostOfJob]:
        today = now().date()
        first = min((job.record.started_at.date() for job in jobs if job.record.started_at), default=today)
        request = ReadJobCosts(
            job_ids=tuple(job.record.id for job in jobs), since=max(first, today - timedelta(days=MAX_RUN_DAYS))
        )
        subject = subjects.ledger(self._cluster.ref, "jobs")
        found = await call(self._client, subject, request, JobCosts, timeout_seconds=LEDGER_SECONDS)
        return {cost.job_id: cost for cost in found.costs}

    async def _noted(self, job: _Job, cost: CostOfJob) -> bool:
        """Write a note if it has changed, and return whether Slurm was asked to."""
        text, over = note_of(cost), job.record.ended
        if text is None:
            return False
        if text == job.noted:
            job.whole = over and not cost.running
            return False
        if over and not _may_note(job.record):
            job.final = True
            return False
        try:
            written = await (self._note_ended(job, text) if over else self._note_running(job.record, text))
        except (Conflict, NotFound):
            return True  # it has ended meanwhile: the next round notes it in accounting
        except Rejected as rejected:
            self._tell(str(rejected))
            job.final = True
            return True
        if written:
            job.noted, job.whole = text, over and not cost.running
        return True

    async def _note_running(self, record: JobRecord, text: str) -> bool:
        """Note the cost of a job in slurmctld, unless somebody else has commented on it since it was listed."""
        token = self._cluster.mint.operator_token()
        for fresh in await self._cluster.slurmctld.job(token, record.id):
            if fresh.job_id == record.job_id and not fresh.ended and _may_note(fresh):
                await self._cluster.slurmctld.update_job(token, record.job_id, {"admin_comment": text})
                return True
        return False

    async def _note_ended(self, job: _Job, text: str) -> bool:
        """Note the cost in accounting, unless it does not know the end yet, or somebody has commented on the job."""
        token = self._cluster.mint.operator_token()
        run = await self._cluster.accounting.newest_run(token, job.record)
        if run is None or not run.ended:
            return False
        if not _may_note(run):
            job.final = True
            return False
        if run.admin_comment != text:
            await self._cluster.accounting.note(token, job.record.id, text)
        return True

    def _tell(self, problem: str) -> None:
        """Log a problem once."""
        if problem != self._problem:
            log.warning("costs_not_noted", reason=problem)
            self._problem = problem


def _nothing(record: JobRecord) -> CostOfJob | None:
    """The cost of a run that ended in the second of its start: Slurm tells whole seconds. The ledger has no line."""
    if not record.ended or record.started_at is None or record.end_time != record.started_at:
        return None
    return CostOfJob(job_id=record.id, micro_usd=0, running=False)


def note_of(cost: CostOfJob) -> str | None:
    """The note of a cost; None while nothing of it is known. `partial`: some price is not known."""
    if cost.micro_usd is None:
        return None
    whole, part = divmod(cost.micro_usd, 1_000_000)
    flags = "".join(f";{name}=1" for name, is_so in (("stale", cost.stale), ("partial", cost.unknown)) if is_so)
    return f"{PREFIX}cost_usd={whole}.{part:06d}{flags}"


def _may_note(record: JobRecord) -> bool:
    """Whether a job gets notes: it has started, and nobody else has commented on it as an administrator.

    `worker-limits` (images/slurm) comments there why it killed a job.
    """
    return (
        record.started_at is not None
        and not record.unreadable
        and (not record.admin_comment or record.admin_comment.startswith(PREFIX))
    )
