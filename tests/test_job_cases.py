"""From what a real Slurm says of a job to the demand of the scaler, case by case (see job_cases.py)."""

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
AGAIN = (
    "tasks",
    "all memory",
    "exclusive to the user",
    "counted features",
    "heterogeneous",
    "begin time",
    "local disk",
)


def pending(answer: dict[str, Any]) -> tuple[PendingJobs, ...]:
    """As the proxy tells the scaler."""
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
def test_demand(case: JobCase) -> None:
    answer = ANSWERS[case.name]
    waiting = {job["state_reason"] for job in answer["jobs"] if job["job_state"] == ["PENDING"]}
    assert waiting == {case.reason}
    ids = tuple(str(FIRST_ID + number) for number in range(1 + len(case.components)))
    found = [(demand.job_ids, demand.count, demand.parts) for demand in demands(answer)]
    assert found == ([(ids, case.count, case.parts)] if case.parts else [])


@pytest.mark.parametrize(
    "name", ["begin time", "after another job", "the only one of its name", "reservation to come", "throttled array"]
)
def test_no_demand_while_slurm_has_not_found_out_why(name: str) -> None:
    """For its first second a job waits for resources, whatever else it waits for."""
    answer = {"jobs": [job | {"state_reason": "Resources"} for job in ANSWERS[name]["jobs"]]}
    assert not demands(answer)


def test_the_same_demand_whichever_partition_slurm_tried_last() -> None:
    recorded = ANSWERS["several partitions of which one allows it"]
    other = {"jobs": [job | {"state_reason": "PartitionNodeLimit"} for job in recorded["jobs"]]}
    assert demands(other) == demands(recorded) != []


@pytest.mark.parametrize("case", [case for case in CASES if case.refused], ids=lambda case: case.name)
def test_refused(case: JobCase) -> None:
    assert ANSWERS[case.name]["refused"] == case.refused


@pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")
async def test_slurm_still_answers_so(tmp_path: Path) -> None:
    async with job_recorder(tmp_path) as recorder:
        answers = await recorder.record(case for case in CASES if case.name in AGAIN)
    assert answers == {name: ANSWERS[name] for name in AGAIN}
