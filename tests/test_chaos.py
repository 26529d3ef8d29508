"""Each service and the NATS server are killed while jobs run: every job runs once, every event is published once."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
from clusterra_contracts.events import Event, JobFact
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.api_errors import UnavailableError
from clusterra_lab.parts.user import SubmittedJob, User
from clusterra_lab.stack.stack import Stack

JOBS = 30
SCRIPT = '#!/bin/bash\necho "began $SLURM_JOB_ID"\nsleep 6\necho "ended $SLURM_JOB_ID"\n'
EXPECTED = ("job.submitted", "job.running", "job.completed")


def slurmds(lab: Stack) -> list[int]:
    """The pids of all slurmd processes of this lab."""
    ours = Path(f"/proc/{lab.slurm.init_pid}/ns/pid").readlink()
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] == "slurmd" and Path(f"/proc/{process.pid}/ns/pid").readlink() == ours:
                found.append(process.pid)
        except FileNotFoundError:
            continue  # the process has ended since
    return found


async def available_output(user: User, job_id: str) -> str | None:
    """A job's output; None while no service can deliver it."""
    try:
        return await user.output(job_id)
    except UnavailableError:
        return None


async def test_each_job_runs_once_and_each_event_is_published_once_while_services_are_killed(
    lab: Stack, ada: User, observer: Observer
) -> None:
    job = {"name": "chaos", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
    submitted: list[SubmittedJob] = await asyncio.gather(
        *(ada.submit(SCRIPT, job, key=f"chaos-job-{number:02}") for number in range(JOBS))
    )

    job_ids = {each.job_id for each in submitted}

    assert len(job_ids) == JOBS

    for service in lab.services.values():
        service.kill()
        await service.start()
        await service.ready()
    await lab.nats.kill()
    await lab.nats.restart()

    async def complete() -> list[Event] | None:
        events = [event for event in await ada.history("job.*") if event.subject in job_ids]
        ended = {event.subject for event in events if event.data.kind == "job.completed"}
        return events if ended == job_ids else None

    events = await until(complete, seconds=300, every=1.0, what="all jobs to be archived as completed")

    published = Counter((event.subject, event.data.kind) for event in events)

    assert published == Counter({(job_id, kind): 1 for job_id in job_ids for kind in EXPECTED})
    assert all(isinstance(event.data, JobFact) and event.data.uid == ada.profile.uid for event in events)

    for job_id in job_ids:
        # The edge may reconnect to the restarted NATS server later than the archive does.
        read = partial(available_output, ada, job_id)
        output = await until(read, seconds=120, every=0.2, what=f"the output of job {job_id}")
        # On a busy machine slurmstepd has added a line of its own, "[...] error: no task list created!".
        lines = [line for line in output.splitlines() if not line.startswith("[")]
        assert lines == [f"began {job_id}", f"ended {job_id}"]

    repeated = await ada.submit(SCRIPT, job, key="chaos-job-00")

    assert repeated.job_id == submitted[0].job_id

    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")

    async def no_nodes() -> bool:
        return (await lab.slurm.run("sinfo", "--noheader", "--Node")).stdout.strip() == ""

    await until(no_nodes, seconds=120, every=0.5, what="the removal of Slurm's nodes")
    await until(lambda: not slurmds(lab), seconds=120, what="the end of the last slurmd")
