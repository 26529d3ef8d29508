"""Who is deactivated can submit nothing with Slurm's own commands either, such as from a job that still runs."""

from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_lab.stack.stack import Stack
from members import service_account

SCRIPT = "#!/bin/sh\ntrue\n"
JOB = {"environment": ["PATH=/usr/bin:/bin"], "memory_per_cpu": 512, "time_limit": 10, "hold": True}


async def refused(lab: Stack, user: SlurmUser) -> str:
    """Why Slurm refuses a job of plain sbatch; empty when it takes it."""
    try:
        job_id = await lab.slurm.sbatch(user, SCRIPT, "--hold", "--time=1", "--mem-per-cpu=512", "--output=/dev/null")
    except CommandFailed as failed:
        return str(failed)
    await lab.slurm.run("scancel", job_id)
    return ""


async def test_who_is_disabled_submits_nothing_until_they_are_enabled(lab: Stack, ada: User) -> None:
    async with service_account(lab, ada, "leaver") as leaver:
        job = await leaver.submit(SCRIPT, JOB)
        user = SlurmUser(name="leaver", uid=leaver.profile.uid, gid=leaver.profile.uid)
        assert await refused(lab, user) == ""
        async with ada.session.get("/v1/members", params={"limit": 200}) as answer:
            (member,) = [each for each in (await answer.json())["members"] if each["name"] == "leaver"]

        async def change(*, disabled: bool) -> None:
            async with ada.session.patch(f"/v1/members/{member['id']}", json={"disabled": disabled}) as answer:
                assert answer.status == 200, await answer.text()

        async def is_refused() -> bool:
            return "leaver is deactivated" in await refused(lab, user)

        async def is_taken() -> bool:
            return await refused(lab, user) == ""

        await change(disabled=True)
        await until(is_refused, seconds=120, what="Slurm to refuse the member's jobs", every=0.5)
        await change(disabled=False)
        await until(is_taken, seconds=120, what="Slurm to take the member's jobs again", every=0.5)
        await leaver.cancel(job.job_id)
        async with ada.session.delete("/v1/service-accounts/leaver") as answer:
            assert answer.status == 204, await answer.text()
        await until(is_refused, seconds=120, what="Slurm to refuse the deleted account's jobs", every=0.5)
