"""Where Slurm enforces the limits of associations, sbatch is refused while a quota is used up, and accepted again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_lab.stack.stack import LabOptions, Stack, stack

SCRIPT = "#!/bin/bash\nsleep 5\n"
JOB = {"memory_per_cpu": 512, "time_limit": 10}
LIMIT = "0.012084"
"""Two jobs of ten minutes on one of the two CPUs of a compute-xs, which costs 0.0725 USD per hour, each rounded up."""
FAIR_SHARE = "7"


@pytest.fixture
async def enforced(tmp_path: Path) -> AsyncIterator[Stack]:
    """A lab of its own: its users need associations."""
    options = LabOptions(ScalingPolicy(idle_seconds=2.0), accounting_enforced=True)
    async with stack(tmp_path / "lab", options) as running:
        yield running


async def sacctmgr(lab: Stack, *argv: str) -> str:
    done = await lab.slurm.run("sacctmgr", "--immediate", "--noheader", "--parsable2", *argv)
    assert done.returncode == 0, done
    return done.stdout


async def association(lab: Stack, user: User) -> tuple[str, str]:
    """The fair share and the GrpSubmitJobs of a user."""
    shown = await sacctmgr(lab, "show", "assoc", f"user={user.profile.name}", "format=fairshare,grpsubmit")
    share, _, submits = shown.strip().partition("|")
    return share, submits


async def test_sbatch_is_refused_by_slurm_while_the_quota_is_used_up_and_no_longer(enforced: Stack) -> None:
    async with enforced.user("ada@acme.example") as ada:
        owner = SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid)
        await sacctmgr(enforced, "add", "account", "name=physics")
        await sacctmgr(enforced, "add", "user", f"name={owner.name}", "account=physics", f"fairshare={FAIR_SHARE}")
        async with ada.session.put(f"/v1/quotas/user/{owner.name}", json={"limit": LIMIT, "mode": "block"}) as answer:
            assert answer.status == 200, await answer.text()
        for _ in range(2):
            await ada.submit(SCRIPT, JOB)

        async def submits_are(most: str) -> bool:
            return (await association(enforced, ada)) == (FAIR_SHARE, most)

        await until(lambda: submits_are("0"), seconds=90, what="an association that may submit nothing", every=0.2)
        with pytest.raises(CommandFailed, match="AssocGrpSubmitJobsLimit"):
            await enforced.slurm.sbatch(owner, SCRIPT, "--time=1", "--mem-per-cpu=512")
        await until(lambda: submits_are(""), seconds=120, what="an association without a limit", every=0.5)
        job_id = await enforced.slurm.sbatch(owner, SCRIPT, "--time=1", "--mem-per-cpu=512")

        await ada.cancel(job_id)
