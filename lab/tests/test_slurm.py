"""A real control plane with real workers, which the tests start by hand."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.config import ClusterOptions, PowerSaving
from clusterra_lab.slurm.control_plane import (
    CommandFailed,
    OwnedSlurmCluster,
    SlurmCluster,
    SlurmNotRunning,
    attach,
    slurm_cluster,
)
from clusterra_lab.slurm.daemon import listening
from clusterra_lab.slurm.provider import in_container, native

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root"),
]

ALICE = SlurmUser(name="alice", uid=5001, gid=5001, groups=(6001,))
BOB = SlurmUser(name="bob", uid=5002, gid=5002)
JOB_SECONDS = 30.0


@pytest.fixture(scope="module", params=[native, in_container])
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[OwnedSlurmCluster]:
    if request.param is in_container and not await engine_answers():
        pytest.skip("no container engine answers")
    async with slurm_cluster(tmp_path_factory.mktemp("slurm"), provider=request.param) as cluster:
        yield cluster


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
            "X-SLURM-USER-TOKEN": cluster.token(user.name, user.uid, user.gid, groups=user.groups),
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


async def test_a_job_submitted_by_rest_runs_with_the_ids_of_its_token(cluster: SlurmCluster) -> None:
    async with worker(cluster, "w1"):
        job = await submit(cluster, ALICE, "id -u; id -g; id -G; cat /proc/self/status | grep -c 'NoNewPrivs'")
        await in_state(cluster, job["job_id"], "COMPLETED")
    file = output(cluster, job["job_id"])

    uid, gid, groups, _ = file.read_text().splitlines()

    assert (uid, gid, set(groups.split())) == ("5001", "5001", {"5001", "6001"})
    assert (file.stat().st_uid, file.stat().st_gid) == (5001, 5001)


async def test_each_user_has_a_home_that_other_users_can_neither_enter_nor_create(cluster: SlurmCluster) -> None:
    home, taken = f"{cluster.shared_path}/home/alice", f"{cluster.shared_path}/home/carol"
    async with worker(cluster, "w8"):
        mine = await submit(cluster, ALICE, f"cd {home} && touch mine && stat -c '%u:%g %a' .")
        await in_state(cluster, mine["job_id"], "COMPLETED")
        others = await submit(cluster, BOB, f"ls {home} && exit 1; mkdir {taken} && exit 1; exit 0")
        await in_state(cluster, others["job_id"], "COMPLETED")

    assert output(cluster, mine["job_id"]).read_text() == "5001:5001 700\n"


async def test_a_job_for_a_known_shape_waits_while_there_is_no_worker(cluster: SlurmCluster) -> None:
    await admit_large(cluster)
    known = await submit(cluster, ALICE, "true", constraints="memory-large", cpus_per_task=16)

    assert await state(cluster, known["job_id"]) == "PENDING"

    unknown = await submit(cluster, ALICE, "true", constraints="quantum")

    assert [error["error_number"] for error in unknown["errors"]] == [2029]

    nodes = (await rest(cluster, ALICE, "GET", "nodes/"))["nodes"]

    assert nodes == []
    await cluster.run("scancel", str(known["job_id"]))


async def test_a_user_without_an_account_can_use_sbatch(cluster: SlurmCluster) -> None:
    async with worker(cluster, "w2"):
        job_id = await cluster.sbatch(BOB, "#!/bin/bash\nid -u; pwd; echo ${SLURM_JWT-none}\n", "--output=job_%j.out")
        await in_state(cluster, job_id, "COMPLETED")
    assert output(cluster, job_id).read_text().split() == ["5002", cluster.shared_path, "none"]
    with pytest.raises(CommandFailed, match="nvalid partition"):
        await cluster.sbatch(BOB, "#!/bin/bash\n", "--partition=nowhere")


async def test_srun_reaches_all_nodes_of_a_job(cluster: SlurmCluster) -> None:
    script = "#!/bin/bash\nsrun --ntasks=2 --ntasks-per-node=1 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME $(id -u)'\n"
    async with worker(cluster, "w3"), worker(cluster, "w4"):
        job_id = await cluster.sbatch(ALICE, script, "--nodes=2", "--output=job_%j.out")
        await in_state(cluster, job_id, "COMPLETED")
    assert sorted(output(cluster, job_id).read_text().splitlines()) == ["0 w3 5001", "1 w4 5001"]


async def test_users_see_only_their_jobs_and_the_operator_sees_all_and_drains_nodes(cluster: SlurmCluster) -> None:
    job = await submit(cluster, ALICE, "true", constraints="memory")

    async def visible_to(user: SlurmUser) -> list[int]:
        return [job["job_id"] for job in (await rest(cluster, user, "GET", "jobs/"))["jobs"]]

    assert job["job_id"] in await visible_to(ALICE)
    assert job["job_id"] not in await visible_to(BOB)
    assert job["job_id"] in await visible_to(cluster.operator)

    drain = {"state": ["DRAIN"], "reason": "test"}
    async with worker(cluster, "w5"):
        assert (await rest(cluster, BOB, "POST", "node/w5", drain))["errors"]
        assert not (await rest(cluster, cluster.operator, "POST", "node/w5", drain))["errors"]
        (node,) = (await rest(cluster, BOB, "GET", "node/w5"))["nodes"]
        assert "DRAIN" in node["state"]
    await cluster.run("scancel", str(job["job_id"]))


async def test_a_job_survives_a_killed_slurmd(cluster: SlurmCluster) -> None:
    port, goal = free_port(), cluster.shared_dir / "goal"
    script = f"echo began; until [ -e {cluster.shared_path}/goal ]; do sleep 0.1; done; echo survived"

    async with worker(cluster, "w6", port=port) as first:
        job = await submit(cluster, ALICE, script)
        # Slurm reports a job as running before its node has started the script.
        out = output(cluster, job["job_id"])
        await until(lambda: out.exists() and out.read_text(), seconds=JOB_SECONDS, what="the script to begin")

        first.kill()
        await first.wait()
        await until(lambda: not listening(port), seconds=30, what="the end of slurmd with its launcher")

        resources = f"CPUs=2 RealMemory=4096 Feature=compute Port={port}"
        slurmd = ["slurmd", "-D", "-Z", "-N", "w6", "-f", "/etc/slurm/slurm.conf", "--conf", resources, "--extra", OPEN]

        second = await start("w6", [*cluster.launcher, *slurmd], log=cluster.log_dir / "w6.out")
        await until(lambda: listening(port), seconds=30, what="the next slurmd", process=second)

        goal.touch()
        await in_state(cluster, job["job_id"], "COMPLETED")
        assert await second.stop() == 0

    assert output(cluster, job["job_id"]).read_text() == "began\nsurvived\n"


async def test_killed_daemons_restart_with_the_queue_at_the_same_address(cluster: OwnedSlurmCluster) -> None:
    saved = cluster.log_dir.parent / "state" / "job_state"
    job = await submit(cluster, ALICE, "true", name="survivor", constraints="memory")

    def is_saved() -> bool:
        # The file is missing for a moment whenever it is replaced.
        with suppress(FileNotFoundError):
            return b"survivor" in saved.read_bytes()
        return False

    # slurmctld loses an accepted job if it is killed before it has saved it.
    await until(is_saved, seconds=30, what="slurmctld to save the job")

    for name in ("slurmctld", "slurmrestd", "slurmdbd"):
        daemon = cluster[name]
        await daemon.kill()
        assert not daemon.alive
        await daemon.start()
        await daemon.restart()
    (read,) = (await rest(cluster, ALICE, "GET", f"job/{job['job_id']}"))["jobs"]

    assert read["job_state"] == ["PENDING"]
    await cluster.run("scancel", str(job["job_id"]))


async def test_slurmctld_starts_after_being_killed_during_a_save(cluster: OwnedSlurmCluster) -> None:
    state_dir, slurmctld = cluster.log_dir.parent / "state", cluster["slurmctld"]
    await slurmctld.stop()
    file, old, new = (state_dir / f"node_state{suffix}" for suffix in ("", ".old", ".new"))
    old.unlink(missing_ok=True)
    new.write_bytes(file.read_bytes())
    os.chown(new, file.stat().st_uid, file.stat().st_gid)
    file.rename(old)

    await slurmctld.start()

    assert slurmctld.alive
    assert file.exists()


async def test_the_launcher_passes_on_environment_signals_and_exit_code(cluster: SlurmCluster, tmp_path: Path) -> None:
    assert (await cluster.run("sh", "-c", 'exit "$CODE"', env={"CODE": "7"})).returncode == 7
    assert (await cluster.run("cat", input="in")).stdout == "in"
    assert (await cluster.run("touch", "/shared-by-all")).returncode != 0

    script = 'trap "echo terminated; exit 3" TERM; echo ready; while :; do sleep 0.05; done'
    process = await start("trap", [*cluster.launcher, "sh", "-c", script], log=tmp_path / "log")
    await until(lambda: process.tail() == "ready", seconds=30, what="the trap", process=process)
    assert await process.stop() == 3
    assert process.tail() == "ready\nterminated"


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
    await until(lambda: all(map(has_ended, pids)), seconds=30, what="the end of all processes")

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
