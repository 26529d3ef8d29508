"""Jobs of two users on one worker that is a process, by cgroups: each has only its own memory and CPUs."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import start, until
from clusterra_lab.slurm import plugins
from clusterra_lab.slurm.config import SCRIPTS, ClusterOptions
from clusterra_lab.slurm.control_plane import OwnedSlurmCluster, slurm_cluster

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

ALICE = SlurmUser(name="alice", uid=5001, gid=5001)
BOB = SlurmUser(name="bob", uid=5002, gid=5002)
SECONDS = 60.0
NOT_HERE = 78
"""Exit code of worker-cgroup where the machine has no cgroups that it may divide."""


LAUNCHER = Path(__file__).parents[2] / "images" / "edge" / "worker-launcher"


@pytest.fixture(scope="module", params=[(f"{SCRIPTS}/worker-cgroup", "w1"), (f"{SCRIPTS}/worker-launcher",)], ids=str)
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[OwnedSlurmCluster]:
    """A cluster with one worker of two CPUs. It starts by worker-cgroup, or as an edge-agent's own process does."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two jobs with a CPU each need two CPUs")
    private_tmp = len(request.param) == 1
    options = ClusterOptions(isolation="cgroups", private_tmp=private_tmp)
    async with slurm_cluster(tmp_path_factory.mktemp("slurm"), options) as cluster:
        if (await cluster.run(f"{SCRIPTS}/worker-cgroup", "probe", "true")).returncode == NOT_HERE:
            pytest.skip("this machine has no cgroups that slurmd may divide")
        shutil.copy(LAUNCHER, cluster.log_dir.parent / "scripts")
        node = f"CPUs=2 RealMemory=1024 Port={free_port()}"
        slurmd = ["slurmd", "-D", "-Z", "-N", "w1", "-f", "/etc/slurm/slurm.conf", "--conf", node, "--extra", OPEN]
        # What the agent and the agent's settings give to a launcher.
        variables = ["env", "CLUSTERRA_WORKER=w1", "CLUSTERRA_CGROUPS=yes"]
        worker = [*cluster.launcher, *variables, *request.param, *slurmd]
        process = await start("w1", worker, log=cluster.log_dir / "w1.out")

        async def idle() -> bool:
            return (await cluster.run("sinfo", "--noheader", "--nodes=w1", "--format=%T")).stdout.strip() == "idle"

        await until(idle, seconds=SECONDS, what="the worker to register", process=process)
        yield cluster
        await process.stop()


async def submit(cluster: OwnedSlurmCluster, user: SlurmUser, script: str) -> str:
    return await cluster.sbatch(user, f"#!/bin/bash\n{script}\n", "--output=%j.out", "--mem=64")


def output(cluster: OwnedSlurmCluster, job: str) -> str:
    file: Path = cluster.shared_dir / f"{job}.out"
    return file.read_text() if file.exists() else ""


async def has_written(cluster: OwnedSlurmCluster, job: str, text: str) -> None:
    await until(lambda: text in output(cluster, job), seconds=SECONDS, what=f"{text!r} of job {job}", every=0.05)


async def state(cluster: OwnedSlurmCluster, job: str) -> str:
    shown = await cluster.run("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T")
    return shown.stdout.strip()


async def in_state(cluster: OwnedSlurmCluster, job: str, wanted: str) -> None:
    async def reached() -> bool:
        return await state(cluster, job) == wanted

    await until(reached, seconds=SECONDS, what=f"job {job} to be {wanted}", every=0.05)


def neighbour(cluster: OwnedSlurmCluster, name: str) -> str:
    """A script that says which CPU it has, and ends once the test says so."""
    return (
        "grep Cpus_allowed_list /proc/self/status; echo begun;"
        f" until [ -e {cluster.shared_path}/{name} ]; do sleep 0.1; done"
    )


@pytest.mark.skipif(not plugins.can_build(), reason="the plugin needs a C compiler")
async def test_a_job_knows_the_names_of_its_user_and_groups(cluster: OwnedSlurmCluster) -> None:
    ada = SlurmUser(name="ada", uid=5003, gid=5999, group="people", groups=(7001,), group_names=("chem",))

    job = await submit(cluster, ada, "id -un; id -Gn; getent passwd ada; getent group chem")

    await in_state(cluster, job, "COMPLETED")
    entry = f"ada:*:5003:5999:ada:{cluster.shared_path}/home/ada:/bin/sh"
    assert output(cluster, job).splitlines() == ["ada", "people chem", entry, "chem:*:7001:ada"]


async def test_a_job_gets_only_its_own_memory(cluster: OwnedSlurmCluster) -> None:
    good = await submit(cluster, BOB, neighbour(cluster, "memory"))
    await has_written(cluster, good, "begun")

    bad = await submit(cluster, ALICE, "taken=$(head --bytes=300000000 /dev/zero | tr '\\0' x); echo survived")

    await in_state(cluster, bad, "OUT_OF_MEMORY")
    assert "survived" not in output(cluster, bad)
    assert await state(cluster, good) == "RUNNING"

    (cluster.shared_dir / "memory").touch()

    await in_state(cluster, good, "COMPLETED")


async def test_a_job_cannot_leave_its_own_cpus(cluster: OwnedSlurmCluster) -> None:
    good = await submit(cluster, BOB, neighbour(cluster, "cpus"))
    await has_written(cluster, good, "begun")

    all_cpus = "taskset --cpu-list --pid 0,1 $$; grep Cpus_allowed_list /proc/self/status; echo end"
    other = await submit(cluster, ALICE, all_cpus)

    await has_written(cluster, other, "end")
    cpus = [
        [line for line in output(cluster, job).splitlines() if line.startswith("Cpus_allowed_list")]
        for job in (good, other)
    ]
    assert sorted(cpu for (line,) in cpus for cpu in line.split()[1:]) == ["0", "1"]

    (cluster.shared_dir / "cpus").touch()

    await in_state(cluster, good, "COMPLETED")
