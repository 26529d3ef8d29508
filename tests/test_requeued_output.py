"""A follower of a job's output is told that it was requeued, although its second output is longer than the first."""

import asyncio

from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SCRIPT = """#!/bin/sh
#SBATCH --requeue
if [ -z "$SLURM_RESTART_COUNT" ]; then echo first; sleep 600; else seq 100000 120000; fi
"""


async def test_the_output_of_a_requeued_job_is_read_anew(lab: Stack, ada: User) -> None:
    job_id = (await ada.submit(SCRIPT, {"time_limit": 15})).job_id
    events: list[tuple[str, str]] = []

    async def follow() -> None:
        async for event in ada.follow(job_id):
            events.append((event.event, event.data))

    async with asyncio.timeout(180):
        following = asyncio.create_task(follow())
        await until(lambda: ("message", "first\n") in events, seconds=60, what="the output of the first run")
        async with ada.session.post(f"/v1/clusters/{ada.cluster}/jobs/{job_id}/requeue") as answer:
            assert answer.status == 204, await answer.text()

        async def begins_now() -> bool:
            """Slurm would wait for two minutes. It changes no job that is still completing."""
            changed = await lab.slurm.run("scontrol", "update", f"JobId={job_id}", "StartTime=now")
            return changed.returncode == 0

        await until(begins_now, seconds=60, what="a requeued job that has completed its first run", every=0.2)
        await following

    last_reset = max(index for index, (kind, _) in enumerate(events) if kind == "reset")
    assert "".join(text for kind, text in events[last_reset:] if kind == "message") == "".join(
        f"{number}\n" for number in range(100_000, 120_001)
    )
