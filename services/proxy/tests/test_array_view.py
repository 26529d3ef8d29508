"""A whole array as one job: what it costs to convert one of many tasks."""

from types import SimpleNamespace
from typing import Any

from clusterra_proxy.requests.view import array_view
from clusterra_proxy.slurmrestd.records import JobRecord

TASKS = 10_000


def task(number: int) -> JobRecord:
    return JobRecord.model_validate(
        {
            "job_id": 1000 + number,
            "array_job_id": {"set": True, "number": 1000},
            "array_task_id": {"set": True, "number": number},
            "job_state": ["RUNNING" if number == TASKS - 1 else "COMPLETED"],
            "user_id": 20001,
            "nodes": "w[1-2]",
            "submit_time": {"set": True, "number": 1_700_000_000},
            "start_time": {"set": True, "number": 1_700_000_000 + number},
        }
    )


def test_of_an_array_of_many_tasks_only_one_is_converted_as_a_whole() -> None:
    converted: list[JobRecord] = []

    def owner_name(record: JobRecord) -> str:
        converted.append(record)
        return "ada"

    cluster: Any = SimpleNamespace(jobs=SimpleNamespace(waiting_tasks=lambda _record: ()), owner_name=owner_name)

    job = array_view(cluster, "1000", [task(number) for number in range(TASKS)])

    assert job is not None
    assert (job.job_id, job.state, job.nodes, job.ended_at) == ("1000", "RUNNING", ("w1", "w2"), None)
    assert job.started_at is not None
    assert job.started_at.timestamp() == 1_700_000_000
    assert converted == [task(TASKS - 1)]
