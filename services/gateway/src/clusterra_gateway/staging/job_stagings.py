"""How far the staging of a job is, as the job shows it.

Most jobs stage nothing. The cache spares them the lookup.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

from clusterra_contracts.identity import ClusterRef, JobId
from pydantic import ValidationError

from clusterra_gateway.staging.staging import view
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.submission.staged_files import JobStaging

NAMED_WITHIN = timedelta(seconds=30)
"""So long after its submit a job may still get its staging: a submit stores the job's id there after Slurm's answer."""
KEPT_SECONDS = 600.0
"""A staging is named later where all gateways were down. Its job then shows it after this time at the latest."""
MAX_JOBS = 50_000


class JobStagings:
    """The stagings of jobs, by the ids of the jobs."""

    def __init__(self, records: StagingRecords) -> None:
        self._records = records
        self._without = JobsWithoutStaging()

    async def of_job(self, ref: ClusterRef, job_id: JobId, *, age: timedelta) -> JobStaging | None:
        """The staging of a job, for a task that of its array; None for a job without one. Raises StoreError.

        `age` is the time since its submit, zero where that is not known.
        """
        submitted = job_id.partition("_")[0]
        if (ref, submitted) in self._without:
            return None
        try:
            staging = await self._records.of_job(ref, submitted)
        except ValidationError:
            # Of a newer release.
            return None
        if staging is None:
            self._without.add(ref, submitted, age=age)
            return None
        return view(staging)


class JobsWithoutStaging:
    """The jobs that were found to have no staging, as a bounded cache."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[ClusterRef, JobId], float] = OrderedDict()

    def __contains__(self, job: tuple[ClusterRef, JobId]) -> bool:
        kept = self._kept.get(job)
        return kept is not None and kept > self._clock()

    def add(self, ref: ClusterRef, job_id: JobId, *, age: timedelta) -> None:
        """Remember that a job of this age has no staging. A young one may still get it, and is not remembered."""
        if age < NAMED_WITHIN:
            return
        self._kept[ref, job_id] = self._clock() + KEPT_SECONDS
        self._kept.move_to_end((ref, job_id))
        if len(self._kept) > MAX_JOBS:
            self._kept.popitem(last=False)
