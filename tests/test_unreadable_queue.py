"""Any user's odd jobs by plain sbatch, on the whole lab: seen, explained and cancelled over HTTP, and others run."""

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.why import Explanation
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SLEEP = "#!/bin/sh\nsleep 300\n"
# Python passes a lone surrogate on as the byte that it stands for, so the last name is no UTF-8.
ODD = {
    "--begin=uts300000000000": "It will not start before 9999-01-01 00:00:00 UTC. No worker is bought for it.",
    "--job-name=\U0010ffff\udcff\udced\udca0\udc80": "It is held by its owner, who can release it.",
}


@pytest.mark.parametrize("option", ODD, ids=["begin", "name"])
async def test_an_odd_job_is_explained_and_cancelled_and_others_run(
    lab: Stack, ada: User, observer: Observer, option: str
) -> None:
    owner = SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid)
    hold = () if option.startswith("--begin") else ("--hold",)
    odd = await lab.slurm.sbatch(owner, SLEEP, "--output=/dev/null", option, *hold)

    async def explained() -> Explanation | None:
        try:
            found = await ada.why(odd)
        except UnexpectedAnswerError:
            return None
        return found if found.text.startswith(ODD[option]) else None

    await until(explained, seconds=60, every=0.1, what=f"the explanation that {ODD[option]!r}")
    other = await ada.submit("#!/bin/sh\necho fine\n", {"name": "other", "memory_per_cpu": 2048})
    await until(
        lambda: (other.job_id, "job.completed") in observer.job_events, seconds=120, what="another job to complete"
    )

    assert await ada.output(other.job_id) == "fine\n"
    assert (await ada.job(odd)).state == "PENDING"

    await ada.cancel(odd)

    await until(
        lambda: (odd, "job.cancelled") in observer.job_events, seconds=60, what="the event of the odd job's end"
    )
