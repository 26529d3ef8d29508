"""What slurmrestd cannot read in a submit, on a real Slurm: whether there is a job, and that the caller is told."""

from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_proxy.slurmrestd.errors import NotUnderstood, Rejected
from proxy_world import SCRIPT
from slurm_world import SlurmWorld

JOB: dict[str, Any] = {"environment": ["PATH=/bin"], "current_working_directory": "/tmp", "hold": True}


async def jobs_of(slurm: SlurmWorld, user: SlurmUser) -> list[str]:
    shown = await slurm.cluster.run("squeue", "--noheader", "--format=%i", "--user", str(user.uid))
    return shown.stdout.split()


@pytest.mark.parametrize(
    ("field", "value", "number"),
    [("nodes", "1-99999999999999", 9202), ("begin_time", "never", 9202), ("nice", "x", 9202), ("argv", "x", 9208)],
)
async def test_a_submit_that_slurmrestd_gives_up_made_no_job(
    slurm: SlurmWorld, workers: None, alice: SlurmUser, field: str, value: object, number: int
) -> None:
    async with slurm.slurmctld() as slurmctld:
        with pytest.raises(NotUnderstood) as raised:
            await slurmctld.submit(slurm.token(alice), SCRIPT, JOB | {field: value})

    assert (raised.value.error.code, raised.value.error.internal) == (number, True)
    assert await jobs_of(slurm, alice) == []


async def test_a_job_that_was_made_despite_an_error_is_answered_with_its_id(
    slurm: SlurmWorld, workers: None, alice: SlurmUser
) -> None:
    async with slurm.slurmctld() as slurmctld:
        submitted = await slurmctld.submit(slurm.token(alice), SCRIPT, JOB | {"shared": ["zzz"]})
        made = await jobs_of(slurm, alice)
        await slurmctld.kill(slurm.token(alice), str(submitted.job_id))

    assert made == [str(submitted.job_id)]
    assert any("zzz" in str(each) for each in (*submitted.warnings, *submitted.errors))


async def test_a_rejected_job_is_rejected_despite_an_error_of_the_parser(
    slurm: SlurmWorld, workers: None, alice: SlurmUser
) -> None:
    async with slurm.slurmctld() as slurmctld:
        with pytest.raises(Rejected) as raised:
            await slurmctld.submit(slurm.token(alice), SCRIPT, JOB | {"shared": ["zzz"], "minimum_cpus": 9_999_999})

    assert raised.value.error.code == 2005
