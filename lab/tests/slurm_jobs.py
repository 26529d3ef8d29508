"""Workers and jobs on a real Slurm, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.control_plane import (
    SlurmCluster,
)

ALICE = SlurmUser(name="alice", uid=5001, gid=5001, groups=(6001,))
BOB = SlurmUser(name="bob", uid=5002, gid=5002)
JOB_SECONDS = 30.0


async def admit_large(cluster: SlurmCluster) -> None:
    """Create a placeholder, so that jobs wait for a worker that does not exist."""
    await cluster.admit("large", cpus=16, memory_mib=131072, features=("memory", "memory-large"))


@asynccontextmanager
async def worker(
    cluster: SlurmCluster, name: str, *, port: int = 0, feature: str = "compute"
) -> AsyncIterator[Process]:
    """Run a dynamic node until the block ends, then delete its record."""
    resources = f"CPUs=2 RealMemory=4096 Feature={feature} Port={port or free_port()}"
    slurmd = ["slurmd", "-D", "-Z", "-N", name, "-f", "/etc/slurm/slurm.conf", "--conf", resources, "--extra", OPEN]
    process = await start(name, [*cluster.launcher, *slurmd], log=cluster.log_dir / f"{name}.out")
    try:

        async def idle() -> bool:
            return (await cluster.run("sinfo", "--noheader", "--nodes", name, "--format=%T")).stdout == "idle\n"

        await until(idle, seconds=JOB_SECONDS, what=f"{name} to register", every=0.05, process=process)
        yield process
    finally:
        await process.stop()
        await cluster.run("scontrol", "delete", f"nodename={name}")


async def rest(cluster: SlurmCluster, user: SlurmUser, method: str, path: str, body: Any = None) -> dict[str, Any]:
    request = Request(
        f"{cluster.slurmrestd_url}/slurm/v0.0.45/{path}",
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={
            "X-SLURM-USER-TOKEN": cluster.token_of(user),
            "Content-Type": "application/json",
        },
    )

    def answer() -> dict[str, Any]:
        # Not aiohttp: after an error slurmrestd sends `Connection: Close` and then a second answer.
        try:
            with urlopen(request) as response:
                return dict(json.load(response))
        except HTTPError as error:
            with error:
                return dict(json.load(error))

    return await asyncio.to_thread(answer)


async def submit(cluster: SlurmCluster, user: SlurmUser, script: str, **fields: Any) -> dict[str, Any]:
    job = {
        "script": f"#!/bin/bash\n{script}\n",
        "name": "test",
        "current_working_directory": cluster.shared_path,
        "standard_output": f"{cluster.shared_path}/job_%j.out",
        "environment": ["PATH=/usr/bin:/bin"],
        **fields,
    }
    return await rest(cluster, user, "POST", "job/submit", {"job": job})


async def state(cluster: SlurmCluster, job_id: object) -> str:
    """The job's state by squeue; COMPLETING is not yet an end."""
    shown = await cluster.run("squeue", "--noheader", f"--jobs={job_id}", "--states=all", "--format=%T")
    return shown.stdout.strip()


async def in_state(cluster: SlurmCluster, job_id: object, wanted: str) -> None:
    async def reached() -> bool:
        return await state(cluster, job_id) == wanted

    await until(reached, seconds=JOB_SECONDS, what=f"job {job_id} to be {wanted}", every=0.05)


def output(cluster: SlurmCluster, job_id: object) -> Path:
    return cluster.shared_dir / f"job_{job_id}.out"
