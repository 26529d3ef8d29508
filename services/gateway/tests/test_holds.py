"""Jobs that are to stay held when their files are there: the one who submits says so in the job or in the script."""

from types import SimpleNamespace
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.rpc.slurm import JobDescription, Submitted
from clusterra_gateway.submission.models import JobToSubmit, WorkflowJobSubmission, asks_for_hold
from clusterra_gateway.submission.staged_files import Output, StagingPlan
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.submits.held_submits import StagedJob


@pytest.mark.parametrize(
    ("script", "hold", "asked"),
    [
        ("#!/bin/sh\n#SBATCH --hold\ntrue\n", None, True),
        ("#!/bin/sh\n#SBATCH --time=5 -H\ntrue\n", None, True),
        ("#!/bin/sh\n#SBATCH --hold\ntrue\n", False, False),
        ("#!/bin/sh\ntrue\n#SBATCH --hold\n", None, False),
        ("#!/bin/sh\ntrue\n", True, True),
        ("#!/bin/sh\n#SBATCH --nonsense\ntrue\n", None, False),
    ],
)
def test_a_hold_is_asked_for_by_the_job_or_by_its_script(script: str, hold: bool | None, asked: bool) -> None:
    assert asks_for_hold(script, JobDescription(environment=("PATH=/bin",), hold=hold)) is asked


class Held:
    """Takes note of the job that is to be staged."""

    def __init__(self) -> None:
        self.job: StagedJob | None = None

    async def submit(self, _ref: ClusterRef, job: StagedJob, *_others: object) -> Submitted:
        self.job = job
        return Submitted(job_id="42", accepted_at=now())


async def test_a_step_whose_script_asks_for_a_hold_is_not_released_when_its_files_are_there() -> None:
    held: Any = Held()
    nothing: Any = SimpleNamespace(submit=None, reservations=None)
    owner: Any = SimpleNamespace(
        member=SimpleNamespace(id="1" * 32, email=""), slurm_user=SlurmUser(name="ada", uid=20001, gid=20001)
    )
    plan = StagingPlan(folder="run1", outputs=(Output(source="*", destination="outputs"),))
    step = WorkflowJobSubmission("#!/bin/sh\n#SBATCH --hold\ntrue\n", JobToSubmit(environment=("PATH=/bin",)), plan)
    desk = SubmitDesk(nothing, nothing, nothing, nothing, held)

    await desk.submit(owner, ClusterRef(tenant="acme", cluster="main"), step, "key-of-a-step", "key-of-a-step")

    assert held.job is not None
    assert held.job.stays_held
