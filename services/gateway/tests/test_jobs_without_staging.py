"""Which jobs are remembered to have no staged files. How long and how many: the tests of the cache."""

from datetime import timedelta
from typing import Any

from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.staging.staging_records import NAMED_WITHIN, JobStagings

REF = ClusterRef(tenant="acme", cluster="main")
OTHER = ClusterRef(tenant="acme", cluster="other")


class Records:
    """The record of a tenant that stages nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[ClusterRef, str]] = []

    async def of_job(self, ref: ClusterRef, job_id: str) -> None:
        self.asked.append((ref, job_id))


async def test_an_old_job_without_staging_is_looked_up_once() -> None:
    records: Any = Records()
    stagings = JobStagings(records)

    for job_id in ("1", "1", "1_7"):
        assert await stagings.of_job(REF, job_id, age=NAMED_WITHIN) is None
    assert await stagings.of_job(OTHER, "1", age=NAMED_WITHIN) is None

    assert records.asked == [(REF, "1"), (OTHER, "1")]


async def test_a_young_job_may_still_get_its_staging() -> None:
    records: Any = Records()
    stagings = JobStagings(records)

    for _ in range(2):
        assert await stagings.of_job(REF, "1", age=NAMED_WITHIN - timedelta(seconds=1)) is None

    assert records.asked == [(REF, "1"), (REF, "1")]
