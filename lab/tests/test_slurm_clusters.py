"""Whole Slurm clusters: side by side, restarted, with power saving, and with a killed owner."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.config import ClusterOptions, PowerSaving
from clusterra_lab.slurm.control_plane import (
    SlurmCluster,
    SlurmNotRunning,
    attach,
    slurm_cluster,
)
from clusterra_lab.slurm.daemon import listening
from slurm_jobs import ALICE, JOB_SECONDS, admit_large, in_state, output, rest, state, submit, worker

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root"),
]


async def test_two_clusters_run_side_by_side(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        clusters = [
            await running.enter_async_context(slurm_cluster(tmp_path / name, ClusterOptions(name)))
            for name in ("a", "b")
        ]
        for cluster in clusters:
            await running.enter_async_context(worker(cluster, "w1"))
        for cluster in clusters:
            job = await submit(cluster, ALICE, 'echo "$SLURM_CLUSTER_NAME"')
            await in_state(cluster, job["job_id"], "COMPLETED")
            assert output(cluster, job["job_id"]).read_text() == f"{cluster.name}\n"

        stranger = SlurmCluster.model_validate({**clusters[0].model_dump(), "jwt_key_file": clusters[1].jwt_key_file})

        assert (await rest(stranger, ALICE, "GET", "nodes/")).get("nodes", []) == []


async def test_a_folder_keeps_its_queue_and_its_accounting(tmp_path: Path) -> None:
    async with slurm_cluster(tmp_path) as first:
        await admit_large(first)
        job = await submit(first, ALICE, "true", constraints="memory", comment="kept")
        ended = await submit(first, ALICE, "true", constraints="memory")
        await first.run("scancel", str(ended["job_id"]))
        await in_state(first, ended["job_id"], "CANCELLED")
        assert attach(tmp_path) == SlurmCluster.model_validate(first.model_dump())

    with pytest.raises(SlurmNotRunning):
        attach(tmp_path)
    assert not listening(first.slurmctld_port)

    async with slurm_cluster(tmp_path) as second:
        assert await state(second, job["job_id"]) == "PENDING"
        shown = await second.run("sacct", "--noheader", "--parsable2", "--allusers", "--format=JobID,State")
        assert f"{ended['job_id']}|CANCELLED" in shown.stdout.splitlines()


async def test_power_saving_records_calls_of_resume_program(tmp_path: Path) -> None:
    async with slurm_cluster(tmp_path, ClusterOptions(power_saving=PowerSaving(features=("compute",)))) as cluster:
        resume_log = cluster.resume_log

        assert resume_log is not None

        await submit(cluster, ALICE, "true", constraints="compute")
        line = await until(resume_log.read_text, seconds=JOB_SECONDS, what="a call of ResumeProgram")

        seconds, node = line.split()

        assert float(seconds) > 0
        assert node == "cloud-1"


HOLDER = """
import asyncio, pathlib, sys
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.process import start
from clusterra_lab.slurm.control_plane import slurm_cluster

async def main():
    async with slurm_cluster(pathlib.Path(sys.argv[1])) as cluster:
        node = "CPUs=2 RealMemory=4096 Port=" + sys.argv[2]
        slurmd = ["slurmd", "-D", "-Z", "-N", "w1", "-f", "/etc/slurm/slurm.conf", "--conf", node, "--extra", OPEN]
        await start("w1", [*cluster.launcher, *slurmd], log=cluster.log_dir / "w1.out")
        await asyncio.Event().wait()

asyncio.run(main())
"""


def has_ended(pid: int) -> bool:
    """Whether the process has ended; it may stay in the process table if the machine's init does not reap orphans."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_a_killed_owner_leaves_no_process_mount_or_port(tmp_path: Path) -> None:
    port = free_port()
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, str(tmp_path), str(port))

    try:
        await until((tmp_path / "slurm.json").exists, seconds=60, what="the cluster")
        cluster = attach(tmp_path)
        await admit_large(cluster)
        await cluster.sbatch(ALICE, "#!/bin/bash\ntouch runs; sleep 600\n")
        await until((cluster.shared_dir / "runs").exists, seconds=JOB_SECONDS, what="the job's script")
        pids = [pid for pid in psutil.pids() if namespace_of(pid) == namespace_of(cluster.init_pid)]
        programs = {Path(part).name for pid in pids for part in psutil.Process(pid).cmdline()}
    finally:
        holder.send_signal(signal.SIGKILL)
        await holder.wait()

    assert programs >= {"mariadbd", "slurmdbd", "slurmctld", "slurmrestd", "slurmd", "slurm_script", "tini"}
    await until(lambda: all(map(has_ended, pids)), seconds=90, what="the end of all processes")

    slurmrestd_port = int(cluster.slurmrestd_url.rpartition(":")[2])

    assert not any(map(listening, (cluster.slurmctld_port, slurmrestd_port, port)))
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    with pytest.raises(SlurmNotRunning):
        attach(tmp_path)


def namespace_of(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
