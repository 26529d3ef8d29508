"""Arrays of millions of tasks: a few bytes in a record of Slurm."""

import json
from pathlib import Path

import pytest
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.body_reader import read
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version
from job_records import at, waiting_array

RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_arrays_of_millions_of_tasks_are_bad_records_each(version: Version) -> None:
    recorded = json.loads((RECORDED / f"{version.name}.json").read_text())
    record = recorded["waiting_array"]["body"]["jobs"][0]
    tasks = ["0-3999999"] * 6 + ["0-99999"]
    content = {
        "jobs": [
            record | {"job_id": number, "array_job_id": {"set": True, "number": number}, "array_task_string": named}
            for number, named in enumerate(tasks, start=100)
        ]
    }

    parsed = read(version.jobs, json.dumps(content).encode())

    assert [each.id for each in parsed.unreadable] == ["100", "101", "102", "103", "104", "105"]
    assert parsed.unreadable[0].problems == ("array_task_string: value_error",)
    assert [each.unreadable for each in parsed.jobs] == [("array_task_string",)] * 6 + [()]
    assert parsed.jobs[-1].array_task_string == "0-99999"


def test_the_tasks_of_all_arrays_are_bounded_and_those_beyond_counted() -> None:
    noted: list[str] = []
    table = JobTable(lambda kind, records: noted.extend(f"{kind} {each.id}: {each.problems[0]}" for each in records))

    table.replace((waiting_array(number, "0-999999") for number in (1, 2, 3)), at(0))
    assert (noted, table.unreadable) == (["job 3: array_task_string: too_many_tasks"], 1)
    assert [len(table.waiting_tasks(record)) for record in table] == [1_000_000, 1_000_000, 0]

    # One array has gone, so that there is room for the other, when it is read again.
    for seconds in (1, 2):
        table.replace((waiting_array(number, "0-999999") for number in (1, 3)), at(seconds))
    assert table.unreadable == 0
    assert table.cancelled_tasks(at(3)) == ()


def test_tasks_that_cannot_be_read_are_not_cancelled() -> None:
    table = JobTable()
    table.put(waiting_array(1, "0-4"), at(0))

    table.put(waiting_array(1, "", unreadable=("array_task_string",)), at(1))

    assert table.cancelled_tasks(at(2)) == ()
    assert table.state_rows > 1_000_000
