"""A machine goes with all that runs on it: Slurm queues its job again, does not hold it, and it ends on another one."""

import re
from contextlib import suppress
from itertools import chain
from pathlib import Path

import psutil
from clusterra_lab.observer import Observer
from clusterra_lab.process import until
from clusterra_lab.scenario import GIB
from clusterra_lab.stack import Stack
from clusterra_lab.user import User

SCRIPT = '#!/bin/bash\necho "began on $SLURMD_NODENAME"\nsleep 5\necho ended\n'


def kill_workers(lab: Stack) -> None:
    """All that runs on workers of this lab, as if their machines were gone: no daemon lives to tell what died."""
    ours = Path(f"/proc/{lab.slurm.init_pid}/ns/pid").readlink()
    daemons: list[psutil.Process] = []
    for process in psutil.process_iter(["name"]):
        try:
            if (
                process.info["name"] in ("slurmd", "slurmstepd")
                and Path(f"/proc/{process.pid}/ns/pid").readlink() == ours
            ):
                process.suspend()
                daemons.append(process)
        except (FileNotFoundError, psutil.NoSuchProcess):
            continue  # it has ended since it was listed
    families = [[daemon, *daemon.children(recursive=True)] for daemon in daemons]
    for process in chain.from_iterable(families):
        with suppress(psutil.NoSuchProcess):
            process.kill()


async def test_a_job_is_queued_again_and_ends_on_another_worker(lab: Stack, ada: User, observer: Observer) -> None:
    job = {"name": "loss", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
    submitted = await ada.submit(SCRIPT, job, key="worker-loss")

    async def shown() -> dict[str, str]:
        told = (await lab.slurm.run("scontrol", "show", "job", submitted.job_id)).stdout
        return dict(re.findall(r"(\w+)=(\S*)", told))

    async def first_run() -> str | None:
        record = await shown()
        return record["BatchHost"] if record["JobState"] == "RUNNING" else None

    lost = await until(first_run, seconds=60, every=0.2, what="the job to run")
    kill_workers(lab)

    async def waits() -> dict[str, str] | None:
        record = await shown()
        return record if record["JobState"] == "PENDING" else None

    waiting = await until(waits, seconds=90, every=0.05, what="Slurm to queue the job again")
    assert waiting["Priority"] != "0", "it is held"
    assert waiting["Restarts"] == "1"

    async def done() -> dict[str, str] | None:
        record = await shown()
        return record if record["JobState"] == "COMPLETED" else None

    ended = await until(done, seconds=180, every=0.5, what="the job to end on another worker")
    assert ended["BatchHost"] != lost
    await until(lambda: observer.workers == {}, seconds=60, what="the workers to go")
