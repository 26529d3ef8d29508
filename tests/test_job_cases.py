"""The demand that the scaler derives from a real Slurm's answers, for each case of job_cases.py."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.queue import PendingJobs
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.versions import VERSIONS
from clusterra_proxy.watch.snapshot import pending_jobs
from clusterra_scaler.planner.requests.demand import Demand, startable
from job_cases import CASES, JobCase
from job_recorder import FIRST_ID, RECORDED, SUBMITTED_AT, job_recorder
from job_site import fits

ANSWERS: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
NOW = datetime.fromtimestamp(SUBMITTED_AT + 1, UTC)
RECORDED_AGAIN = (
    "tasks",
    "all memory",
    "exclusive to the user",
    "counted features",
    "heterogeneous",
    "begin time",
    "local disk",
)


def pending(answer: dict[str, Any]) -> tuple[PendingJobs, ...]:
    """The pending jobs of the snapshot that the proxy sends to the scaler."""
    table = JobTable()
    for record in VERSIONS[0].jobs.model_validate({"jobs": answer["jobs"]}).jobs:
        table.put(record, NOW)
    return pending_jobs(table, table.waiting_tasks, NOW)


def demands(answer: dict[str, Any]) -> list[Demand]:
    return startable(pending(answer), "main", NOW, fits)


def test_every_case_is_recorded_once() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.name: " : ".join((case.options, *case.components)) for case in CASES} == {
        name: answer["options"] for name, answer in ANSWERS.items()
    }, "run `make record-jobs`"


@pytest.mark.parametrize("case", [case for case in CASES if not case.refused], ids=lambda case: case.name)
def test_a_waiting_job_becomes_the_expected_demand(case: JobCase) -> None:
    answer = ANSWERS[case.name]
    waiting = {job["state_reason"] for job in answer["jobs"] if job["job_state"] == ["PENDING"]}
    assert waiting == {case.reason}
    ids = tuple(str(FIRST_ID + number) for number in range(1 + len(case.components)))
    found = [(demand.job_ids, demand.count, demand.parts) for demand in demands(answer)]
    assert found == ([(ids, case.count, case.parts)] if case.parts else [])


@pytest.mark.parametrize(
    "name", ["begin time", "after another job", "the only one of its name", "reservation to come", "throttled array"]
)
def test_a_job_with_another_reason_is_no_demand_while_slurm_still_says_resources(name: str) -> None:
    """In the first second of a job Slurm reports the reason Resources, whatever the job waits for."""
    answer = {"jobs": [job | {"state_reason": "Resources"} for job in ANSWERS[name]["jobs"]]}
    assert not demands(answer)


def test_the_demand_does_not_depend_on_the_partition_that_slurm_tried_last() -> None:
    recorded = ANSWERS["several partitions of which one allows it"]
    other = {"jobs": [job | {"state_reason": "PartitionNodeLimit"} for job in recorded["jobs"]]}
    assert demands(other) == demands(recorded) != []


@pytest.mark.parametrize("case", [case for case in CASES if case.refused], ids=lambda case: case.name)
def test_slurm_rejects_the_case_with_the_expected_error(case: JobCase) -> None:
    assert ANSWERS[case.name]["refused"] == case.refused


@pytest.mark.slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")
async def test_slurm_still_gives_the_recorded_answers(tmp_path: Path) -> None:
    async with job_recorder(tmp_path) as recorder:
        answers = await recorder.record(case for case in CASES if case.name in RECORDED_AGAIN)
    assert answers == {name: ANSWERS[name] for name in RECORDED_AGAIN}
