"""A service account's job on real Slurm, under the account's own uid."""

from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from members import service_account


async def test_a_job_of_a_service_account_runs_under_its_own_uid(lab: Stack, ada: User, observer: Observer) -> None:
    async with service_account(lab, ada, "pipeline") as pipeline:
        job = await pipeline.submit("#!/bin/bash\nid -u\n", {"name": "nightly", "memory_per_cpu": 2048})
        await until(lambda: (job.job_id, "job.completed") in observer.job_events, seconds=120, what="the job's end")

        assert await pipeline.output(job.job_id) == f"{pipeline.profile.uid}\n"
    assert pipeline.profile.uid != ada.profile.uid
