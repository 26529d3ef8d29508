"""While polls are late, a job is read from the last observation, and asked for where it is changed."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.slurm import GetJob, Viewer
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.requests.query import find_records, get_job
from clusterra_proxy.slurmrestd.records import JobRecord

ADA = Viewer(user=SlurmUser(name="ada", uid=5001, gid=5001))


def record(state: str) -> JobRecord:
    return JobRecord(job_id=7, user_id=5001, job_state=(state,), submit_time=datetime(2026, 1, 1, tzinfo=UTC))


class LateCluster(SimpleNamespace):
    """A cluster whose last poll is too old for what is fresh, and as recent as the polls allow."""

    jobs_fresh, jobs_listable, changed_since_poll = False, True, False

    def __init__(self) -> None:
        names, table = SimpleNamespace(learn_viewer=lambda _viewer: None), JobTable()
        mint = SimpleNamespace(names=names, operator_token=lambda: "token")
        table.put(record("PENDING"), now())
        super().__init__(mint=mint, jobs=table, slurmctld=self, asked=0)

    async def wait_for_own_changes(self) -> None:
        """There are none."""

    def owner_name(self, _record: JobRecord) -> str:
        return "ada"

    def observe_jobs(self, _records: object, _at: object) -> None:
        """Nothing is observed."""

    async def job(self, _token: str, _job_id: str) -> tuple[JobRecord, ...]:
        self.asked += 1
        return (record("RUNNING"),)


@pytest.fixture
def cluster() -> Any:
    return LateCluster()


async def test_a_job_is_shown_as_it_was_observed_last(cluster: Any) -> None:
    job = await get_job(cluster, GetJob(viewer=ADA, job_id="7"))

    assert (job.state, cluster.asked) == ("PENDING", 0)


async def test_a_job_that_is_changed_is_read_from_slurm(cluster: Any) -> None:
    (found,) = await find_records(cluster, "7")

    assert (found.state, cluster.asked) == ("RUNNING", 1)


async def test_after_a_change_a_job_is_read_from_slurm(cluster: Any) -> None:
    cluster.changed_since_poll = True

    job = await get_job(cluster, GetJob(viewer=ADA, job_id="7"))

    assert (job.state, cluster.asked) == ("RUNNING", 1)


async def test_an_observation_that_is_older_than_the_polls_allow_is_not_shown(cluster: Any) -> None:
    cluster.jobs_listable = False

    job = await get_job(cluster, GetJob(viewer=ADA, job_id="7"))

    assert (job.state, cluster.asked) == ("RUNNING", 1)
