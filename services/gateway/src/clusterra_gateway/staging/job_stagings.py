"""The progress of a job's staging, as the job shows it. Most jobs stage nothing. The cache spares them the lookup."""

from datetime import timedelta

from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_runtime.bounded_cache import BoundedCache
from pydantic import ValidationError

from clusterra_gateway.staging.staging import view
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.submission.staged_files import JobStaging

NAMED_WITHIN = timedelta(seconds=30)
"""Time after its submit in which a job may still get its staging: the submit stores the job's id after Slurm's
answer."""
KEPT_SECONDS = 600.0
"""A staging is named later where all gateways were down. Its job then shows it after this time at the latest."""
MAX_JOBS = 50_000


class JobStagings:
    """The stagings of jobs, by the ids of the jobs."""

    def __init__(self, records: StagingRecords) -> None:
        self._records = records
        self._without = BoundedCache[tuple[ClusterRef, JobId], None](MAX_JOBS, KEPT_SECONDS)

    async def of_job(self, ref: ClusterRef, job_id: JobId, *, age: timedelta) -> JobStaging | None:
        """The staging of a job, or of an array task's array; None for a job without staging. Raises StoreError.

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
            if age >= NAMED_WITHIN:
                self._without.put((ref, submitted), None)
            return None
        return view(staging)
