"""Remembers the jobs without staged files: most jobs are, and each read of a job asks for its staging."""

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

from clusterra_contracts.identity import ClusterRef, JobId

NAMED_WITHIN = timedelta(seconds=30)
"""So long after its submit a job may still get its staging: a submit stores the job's id there after Slurm's answer."""
KEPT_SECONDS = 600.0
"""A staging is named later where all gateways were down. Its job then shows it after this time at the latest."""
MAX_JOBS = 50_000


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
