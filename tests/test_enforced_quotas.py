"""Where Slurm enforces the limits of associations, sbatch is refused while a quota is used up, and accepted again."""

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_lab.stack.stack import Stack
from gates import closed_gate
from members import service_account
from site_lab import accounting

SCRIPT = "#!/bin/bash\n"
JOB = {"environment": ["PATH=/usr/bin:/bin"], "memory_per_cpu": 512, "time_limit": 10}
LIMIT = "0.012084"
"""Two jobs of ten minutes on one of the two CPUs of a compute-xs, which costs 0.0725 USD per hour, each rounded up."""
FAIR_SHARE = "7"


@pytest.fixture
def lab(site_lab: Stack) -> Stack:
    return site_lab


async def association(lab: Stack, user: User) -> tuple[str, str]:
    """The fair share and the GrpSubmitJobs of a user."""
    shown = await accounting(lab, "show", "assoc", f"user={user.profile.name}", "format=fairshare,grpsubmit")
    share, _, submits = shown.strip().partition("|")
    return share, submits


async def test_sbatch_is_refused_by_slurm_while_the_quota_is_used_up_and_no_longer(lab: Stack, ada: User) -> None:
    async with service_account(lab, ada, "quirin") as quirin:
        owner = SlurmUser(name=quirin.profile.name, uid=quirin.profile.uid, gid=quirin.profile.uid)
        await accounting(lab, "add", "account", "name=physics")
        await accounting(lab, "add", "user", f"name={owner.name}", "account=physics", f"fairshare={FAIR_SHARE}")
        async with ada.session.put(f"/v1/quotas/user/{owner.name}", json={"limit": LIMIT, "mode": "block"}) as answer:
            assert answer.status == 200, await answer.text()
        gate = closed_gate(lab)
        for _ in range(2):
            await quirin.submit(SCRIPT + gate.wait, JOB)

        async def submits_are(most: str) -> bool:
            return (await association(lab, quirin)) == (FAIR_SHARE, most)

        await until(lambda: submits_are("0"), seconds=90, what="an association that may submit nothing", every=0.2)
        with pytest.raises(CommandFailed, match="AssocGrpSubmitJobsLimit"):
            await lab.slurm.sbatch(owner, SCRIPT, "--time=1", "--mem-per-cpu=512")
        gate.open()
        await until(lambda: submits_are(""), seconds=120, what="an association without a limit", every=0.2)
        job_id = await lab.slurm.sbatch(owner, SCRIPT, "--time=1", "--mem-per-cpu=512")

        await quirin.cancel(job_id)
