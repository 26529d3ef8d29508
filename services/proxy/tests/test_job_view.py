"""A record is converted once for all lists that show it, and again when anything in the view has changed."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from clusterra_contracts.rpc.slurm import Job
from clusterra_proxy.requests.view import job_view
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_runtime.bounded_cache import BoundedCache


class FakeCluster(SimpleNamespace):
    """What a view needs of a cluster: the name of a job's owner, and the waiting tasks of an array."""

    def __init__(self) -> None:
        super().__init__(views=BoundedCache(10), jobs=SimpleNamespace(waiting_tasks=lambda _record: self.waiting))
        self.name = "ada"
        self.waiting: tuple[int, ...] = ()

    def owner_name(self, _record: JobRecord) -> str:
        return self.name


@pytest.fixture
def cluster() -> Any:
    return FakeCluster()


def record(**fields: Any) -> JobRecord:
    submitted = datetime(2026, 1, 1, tzinfo=UTC)
    return JobRecord.model_validate({"job_id": 7, "job_state": ("PENDING",), "submit_time": submitted} | fields)


def view(cluster: Any, record: JobRecord) -> Job:
    job = job_view(cluster, record)
    assert job is not None
    return job


def test_a_record_is_converted_once(cluster: Any) -> None:
    waiting = record()

    first = view(cluster, waiting)

    assert view(cluster, waiting) is first


def test_a_newer_record_of_the_job_is_shown(cluster: Any) -> None:
    view(cluster, record())

    newer = view(cluster, record(job_state=("RUNNING",)))

    assert newer.state == "RUNNING"


def test_a_name_that_becomes_known_is_shown(cluster: Any) -> None:
    waiting = record()
    view(cluster, waiting)

    cluster.name = "ada.lovelace"

    assert view(cluster, waiting).user == "ada.lovelace"


def test_the_waiting_tasks_of_an_array_are_those_of_the_last_poll(cluster: Any) -> None:
    array = record(array_job_id=7, array_task_string="1-2")
    cluster.waiting = (1, 2)
    view(cluster, array)

    cluster.waiting = (2,)

    assert view(cluster, array).array_tasks == "2"
