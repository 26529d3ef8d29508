"""The script of a job on a real Slurm, told to its owner and to admins, and to nobody else."""

from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SCRIPT = '#!/bin/bash\n#SBATCH --job-name=kept\n\n# it\'s "mine"\ntrue\n'


def path(user: User, job_id: str) -> str:
    return f"/v1/clusters/{user.cluster}/jobs/{job_id}/script"


async def script_of(user: User, job_id: str) -> str:
    """The script, as soon as Slurm's accounting has it."""

    async def kept() -> str | None:
        async with user.session.get(path(user, job_id)) as answer:
            told = await answer.json()
            assert answer.status == 200 or "accounting" in told["detail"], told
            return told["script"] if answer.status == 200 else None

    return await until(kept, seconds=90, what="the script in Slurm's accounting", every=0.2)


async def test_a_script_is_read_by_the_jobs_owner_and_no_other_member(lab: Stack, ada: User) -> None:
    async with lab.user("grace@acme.example") as grace, lab.user("eve@globex.example") as eve:
        jobs = {user: (await user.submit(SCRIPT, {"hold": True})).job_id for user in (ada, grace)}
        try:
            assert await script_of(ada, jobs[ada]) == SCRIPT
            assert await script_of(grace, jobs[grace]) == SCRIPT
            assert await script_of(ada, jobs[grace]) == SCRIPT
            for stranger in (grace, eve):
                async with stranger.session.get(path(stranger, jobs[ada])) as answer:
                    assert answer.status == 404
                    assert "mine" not in await answer.text()
        finally:
            for user, job_id in jobs.items():
                await user.cancel(job_id)
