"""Output is found where Slurm says it is, also of a plain sbatch with a path of its own."""

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.job_states import ENDED
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack


async def test_output_in_the_shared_folder_is_found_and_elsewhere_it_is_told(lab: Stack, ada: User) -> None:
    owner = SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid)
    path = lab.slurm.shared_path
    script = '#!/bin/sh\necho "began $SLURM_JOB_NAME"\necho wrong >&2\n'
    inside = await lab.slurm.sbatch(
        owner, script, "--job-name=mine", f"--output={path}/runs/%x-%j.log", f"--error={path}/runs/%j.problems"
    )
    named = await lab.slurm.sbatch(owner, script, f"--output={path}/runs/%u/%x-%j.log", f"--error={path}/runs/%u.%j")
    outside = await lab.slurm.sbatch(owner, script, "--output=/dev/null")
    for job_id in (inside, named, outside):

        async def ended(job_id: str = job_id) -> bool:
            return (await ada.job(job_id)).state in ENDED

        await until(ended, seconds=120, every=0.2, what=f"the end of job {job_id}")

    assert await ada.output(inside) == "began mine\n"
    assert await ada.output(named) == "began sbatch\n"
    url = f"/v1/clusters/{ada.cluster}/jobs"
    for job_id in (inside, named):
        async with ada.session.get(f"{url}/{job_id}/output?stream=stderr") as answer:
            assert await answer.text() == "wrong\n"
    async with ada.session.get(f"{url}/{outside}/output") as answer:
        assert answer.status == 404
        assert "/dev/null, outside of the cluster's shared folder" in (await answer.json())["detail"]
