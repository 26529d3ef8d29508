"""A machine is lost with all its processes: Slurm requeues its job without a hold, and it ends on another worker."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from lost_machines import lose_workers

SLURMD_TIMEOUT = "SlurmdTimeout=30"
SCRIPT = """#!/bin/bash
echo "began on $SLURMD_NODENAME"
[ "$SLURM_RESTART_COUNT" ] || sleep 600
echo ended
"""


@pytest.fixture
async def lab(site_lab: Stack) -> AsyncIterator[Stack]:
    """A lab whose SlurmdTimeout is shorter until the end of the test. The record of a lost node goes then, too."""
    file = site_lab.slurm.spool_dir.parent / "etc" / "slurm.conf"
    before = file.read_text()
    assert before.count(SLURMD_TIMEOUT) == 1
    await reconfigure(site_lab, file, before.replace(SLURMD_TIMEOUT, "SlurmdTimeout=10"))
    yield site_lab
    shown = await site_lab.slurm.run("sinfo", "--noheader", "--partition=main", "--states=down", "--format=%n")
    for name in shown.stdout.split():
        deleted = await site_lab.slurm.run("scontrol", "delete", f"nodename={name}")
        assert deleted.returncode == 0, deleted
    await reconfigure(site_lab, file, before)


async def reconfigure(lab: Stack, file: Path, settings: str) -> None:
    file.write_text(settings)
    done = await lab.slurm.run("scontrol", "reconfigure")
    assert done.returncode == 0, done
    await until(lab.slurm.admits, seconds=60, what="Slurm to accept jobs", every=0.1)


async def test_a_job_of_a_lost_machine_is_requeued_and_ends_on_another_worker(
    lab: Stack, ada: User, observer: Observer
) -> None:
    job = {"name": "loss", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
    submitted = await ada.submit(SCRIPT, job, key="worker-loss")
    output = lab.slurm.shared_dir / f"job_{submitted.job_id}.out"

    async def record() -> dict[str, str]:
        shown = (await lab.slurm.run("scontrol", "show", "job", submitted.job_id)).stdout
        return dict(re.findall(r"(\w+)=(\S*)", shown))

    async def first_run() -> str | None:
        return (await record())["BatchHost"] if output.exists() and output.read_text() else None

    lost = await until(first_run, seconds=120, every=0.2, what="the job to run")
    lose_workers(lab)

    async def requeued() -> dict[str, str] | None:
        job = await record()
        return job if job["Restarts"] == "1" else None

    waiting = await until(requeued, seconds=120, every=0.2, what="Slurm to requeue the job")

    assert waiting["Priority"] != "0", "the job is held"

    async def completed() -> dict[str, str] | None:
        job = await record()
        return job if job["JobState"] == "COMPLETED" else None

    ended = await until(completed, seconds=180, every=0.5, what="the end of the job on another worker")

    assert ended["BatchHost"] != lost
    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")
