"""Which jobs are remembered to have no staged files, and for how long."""

from datetime import timedelta

from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.staging.job_stagings import KEPT_SECONDS, MAX_JOBS, NAMED_WITHIN, JobsWithoutStaging

REF = ClusterRef(tenant="acme", cluster="main")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_young_job_may_still_get_its_staging() -> None:
    without = JobsWithoutStaging(Clock())

    without.add(REF, "1", age=NAMED_WITHIN - timedelta(seconds=1))
    without.add(REF, "2", age=NAMED_WITHIN)

    assert (REF, "1") not in without
    assert (REF, "2") in without


def test_a_job_is_asked_for_again_in_the_end() -> None:
    clock = Clock()
    without = JobsWithoutStaging(clock)
    without.add(REF, "1", age=NAMED_WITHIN)

    clock.seconds = KEPT_SECONDS - 1
    assert (REF, "1") in without

    clock.seconds = KEPT_SECONDS
    assert (REF, "1") not in without


def test_the_oldest_are_forgotten_beyond_the_bound() -> None:
    without = JobsWithoutStaging(Clock())

    for number in range(MAX_JOBS + 1):
        without.add(REF, str(number), age=NAMED_WITHIN)

    assert (REF, "0") not in without
    assert (REF, "1") in without
    assert (ClusterRef(tenant="acme", cluster="other"), "1") not in without
