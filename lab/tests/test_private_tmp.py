"""Jobs of two users on one worker that is a process: each has its own /tmp and /var/tmp, of which nothing is left."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.config import SCRIPTS, ClusterOptions
from clusterra_lab.slurm.control_plane import OwnedSlurmCluster, slurm_cluster
from clusterra_lab.slurm.isolation import PRIVATE_TMP

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

ALICE = SlurmUser(name="alice", uid=5001, gid=5001)
BOB = SlurmUser(name="bob", uid=5002, gid=5002)
SECONDS = 60.0
CPUS = sorted(os.sched_getaffinity(0))
_OWN_TMP = 'mount -t tmpfs -o mode=1777,size=64m tmp /tmp; exec "$@"'


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OwnedSlurmCluster]:
    async with slurm_cluster(tmp_path_factory.mktemp("slurm"), ClusterOptions(private_tmp=True)) as cluster:
        yield cluster


@asynccontextmanager
async def worker(cluster: OwnedSlurmCluster, name: str, *, cpu: int = CPUS[0]) -> AsyncIterator[Process]:
    """Run a worker with two CPUs, whose launcher starts on one CPU: from there come the numbers of its namespaces."""
    node = f"CPUs=2 RealMemory=1024 Port={free_port()}"
    slurmd = ["slurmd", "-D", "-Z", "-N", name, "-f", "/etc/slurm/slurm.conf", "--conf", node, "--extra", OPEN]
    first = ["taskset", "--cpu-list", str(cpu), "unshare", "--mount", "sh", "-euc", _OWN_TMP, "sh"]
    all_cpus = ["taskset", "--cpu-list", ",".join(map(str, CPUS))]
    launcher = [*cluster.launcher, *first, *all_cpus, f"{SCRIPTS}/worker-namespace"]
    process = await start(name, [*launcher, *slurmd], log=cluster.log_dir / f"{name}.out")
    try:
        await node_is(cluster, name, "idle")
        yield process
    finally:
        await process.stop()
        await cluster.run("scontrol", "delete", f"nodename={name}")


async def run_outside(argv: list[str]) -> str:
    """Run a command of this machine and return its output."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode()


async def node_is(cluster: OwnedSlurmCluster, name: str, state: str) -> None:
    async def reached() -> bool:
        return (await cluster.run("sinfo", "--noheader", f"--nodes={name}", "--format=%T")).stdout.strip() == state

    await until(reached, seconds=SECONDS, what=f"{name} to be {state}", every=0.05)


async def submit(cluster: OwnedSlurmCluster, user: SlurmUser, script: str, *args: str) -> str:
    script = f"#!/bin/bash\n{script}\n"
    return await cluster.sbatch(user, script, "--output=%j.out", "--open-mode=append", "--mem=64", *args)


def output(cluster: OwnedSlurmCluster, job: str) -> str:
    file = cluster.shared_dir / f"{job}.out"
    return file.read_text() if file.exists() else ""


async def has_written(cluster: OwnedSlurmCluster, job: str, text: str, *, times: int = 1) -> None:
    def written() -> bool:
        return output(cluster, job).count(text) == times

    await until(written, seconds=SECONDS, what=f"{text!r} of job {job}", every=0.05)


async def in_state(cluster: OwnedSlurmCluster, job: str, wanted: str) -> None:
    async def reached() -> bool:
        shown = await cluster.run("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T")
        return shown.stdout.strip() == wanted

    await until(reached, seconds=SECONDS, what=f"job {job} to be {wanted}", every=0.05)


def until_told(cluster: OwnedSlurmCluster, name: str) -> str:
    return f"echo begun; until [ -e {cluster.shared_path}/{name} ]; do sleep 0.1; done"


def slurmd_pid(process: Process) -> int:
    children = psutil.Process(process.pid).children(recursive=True)
    return next(child.pid for child in children if child.name() == "slurmd")


def left(process: Process) -> list[str]:
    """What a worker has of its jobs: private folders and mounts."""
    proc = Path(f"/proc/{slurmd_pid(process)}")
    tmp = proc / "root/tmp"
    mounts = (proc / "mountinfo").read_text().splitlines()
    return [*map(str, tmp.glob(".private/*/*")), *(line for line in mounts if f"{PRIVATE_TMP}/" in line)]


LOOK = "ls -A /tmp /var/tmp; echo tmpdir=$TMPDIR"


@pytest.mark.parametrize("cpu", CPUS)
async def test_neighbours_do_not_see_the_files_of_each_other(cluster: OwnedSlurmCluster, cpu: int) -> None:
    told = f"neighbours-{cpu}"
    async with worker(cluster, f"w{cpu}", cpu=cpu) as process:
        writes = "umask 0; echo a >/tmp/of-alice; echo b >/var/tmp/of-alice"
        alice = await submit(cluster, ALICE, f"{writes}; {until_told(cluster, told)}; cat /tmp/of-alice")
        await has_written(cluster, alice, "begun")

        bob = await submit(cluster, BOB, f"{LOOK}; echo b >/tmp/of-alice")
        again = await submit(cluster, ALICE, LOOK)

        await in_state(cluster, bob, "COMPLETED")
        await in_state(cluster, again, "COMPLETED")
        assert output(cluster, bob) == output(cluster, again) == "/tmp:\n\n/var/tmp:\ntmpdir=/tmp\n"

        (cluster.shared_dir / told).touch()

        await in_state(cluster, alice, "COMPLETED")
        assert output(cluster, alice) == "begun\na\n"
        await node_is(cluster, f"w{cpu}", "idle")
        assert left(process) == []


async def test_a_requeued_job_starts_with_an_empty_tmp(cluster: OwnedSlurmCluster) -> None:
    async with worker(cluster, "requeue") as process:
        closed = "mkdir /tmp/closed; touch /tmp/closed/file; chmod 0 /tmp/closed"
        job = await submit(cluster, ALICE, f"ls -A /tmp; {closed}; {until_told(cluster, 'requeued')}", "--requeue")
        await has_written(cluster, job, "begun")

        assert (await cluster.run("scontrol", "requeue", job)).returncode == 0
        await has_written(cluster, job, "begun", times=2)

        (cluster.shared_dir / "requeued").touch()

        await in_state(cluster, job, "COMPLETED")
        assert output(cluster, job).replace("begun\n", "").find("closed") == -1
        await node_is(cluster, "requeue", "idle")
        assert left(process) == []


async def test_a_killed_worker_leaves_nothing_in_the_way_of_its_successor(cluster: OwnedSlurmCluster) -> None:
    """The successor has the same name, and runs the same job again."""
    async with worker(cluster, "killed") as process:
        job = await submit(cluster, ALICE, f"ls -A /tmp; touch /tmp/file; {until_told(cluster, 'again')}", "--requeue")
        await has_written(cluster, job, "begun")

        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        await process.wait()
        await cluster.run("scontrol", "update", "nodename=killed", "state=down", "reason=killed")

    async with worker(cluster, "killed") as process:
        await has_written(cluster, job, "begun", times=2)

        (cluster.shared_dir / "again").touch()

        await in_state(cluster, job, "COMPLETED")
        assert "file" not in output(cluster, job)
        await node_is(cluster, "killed", "idle")
        assert left(process) == []


async def test_the_private_tmp_of_all_jobs_of_a_user_is_bounded(cluster: OwnedSlurmCluster) -> None:
    """Of 64 MiB, the user of one of two CPUs may use 32."""
    async with worker(cluster, "bounded") as process:
        inside = ("nsenter", f"--target={slurmd_pid(process)}", "--mount", "--root", "env", "SLURMD_NODENAME=bounded")
        look = [*inside, "SLURM_CONF=/etc/slurm/slurm.conf", f"{SCRIPTS}/worker-limits"]
        fair = f"head --bytes=20M /dev/zero >/tmp/fair; {until_told(cluster, 'bounded')}"
        good = await submit(cluster, BOB, fair)
        much = "mkdir /tmp/closed; head --bytes=38M /dev/zero >/tmp/closed/big; chmod 0 /tmp/closed; echo begun"
        bad = await submit(cluster, ALICE, f"{much}; sleep 1000")
        await has_written(cluster, good, "begun")
        await has_written(cluster, bad, "begun")

        assert bad in await run_outside(look)

        await in_state(cluster, bad, "FAILED")
        shown = await cluster.run("scontrol", "show", "job", bad)
        assert "AdminComment=exceeded scratch limit: " in shown.stdout

        (cluster.shared_dir / "bounded").touch()

        await in_state(cluster, good, "COMPLETED")
        await node_is(cluster, "bounded", "idle")
        assert left(process) == []
