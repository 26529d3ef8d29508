"""A real control plane with real workers, which the tests start by hand."""

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import start, until
from clusterra_lab.slurm import plugins
from clusterra_lab.slurm.config import ETC
from clusterra_lab.slurm.control_plane import (
    CommandFailed,
    OwnedSlurmCluster,
    SlurmCluster,
    slurm_cluster,
)
from clusterra_lab.slurm.daemon import listening
from clusterra_lab.slurm.provider import in_container, native
from slurm_jobs import ALICE, BOB, JOB_SECONDS, admit_large, in_state, output, rest, state, submit, worker

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root"),
]

AGENT_GID = 65532
"""The group of the edge-agent, which alone may read an output besides the job's owner (`images/slurm/prolog`)."""


@pytest.fixture(scope="module", params=[native, in_container])
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[OwnedSlurmCluster]:
    if request.param is in_container and not await engine_answers():
        pytest.skip("no container engine answers")
    async with slurm_cluster(tmp_path_factory.mktemp("slurm"), provider=request.param) as cluster:
        yield cluster


async def test_a_job_submitted_by_rest_runs_with_the_ids_of_its_token(cluster: SlurmCluster) -> None:
    async with worker(cluster, "w1"):
        job = await submit(cluster, ALICE, "id -u; id -g; id -G; cat /proc/self/status | grep -c 'NoNewPrivs'")
        await in_state(cluster, job["job_id"], "COMPLETED")
    file = output(cluster, job["job_id"])

    uid, gid, groups, _ = file.read_text().splitlines()

    assert (uid, gid, set(groups.split())) == ("5001", "5001", {"5001", "6001"})
    assert (file.stat().st_uid, file.stat().st_gid) == (5001, AGENT_GID)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


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


@asynccontextmanager
async def schedulers_every_ten_minutes(cluster: SlurmCluster) -> AsyncIterator[None]:
    """Slurm's schedulers look at the queue every ten minutes, and not once a second."""
    conf = f"{ETC}/slurm.conf"
    rarely = "s/(bf_interval|sched_interval|batch_sched_delay)=[01],/\\1=600,/g"
    await cluster.run("sed", "--regexp-extended", "--in-place=.before", rarely, conf)
    try:
        await cluster.run("scontrol", "reconfigure")
        shown = await cluster.run("scontrol", "show", "config")
        assert "bf_interval=600,sched_interval=600,sched_min_interval=100000,batch_sched_delay=600," in shown.stdout
        yield
    finally:
        await cluster.run("cp", f"{conf}.before", conf)
        await cluster.run("scontrol", "reconfigure")


@pytest.mark.skipif(not plugins.can_build(), reason="the plugin needs a C compiler")
async def test_a_job_starts_at_its_submit_when_a_worker_is_idle(cluster: SlurmCluster) -> None:
    async with worker(cluster, "w9"), schedulers_every_ten_minutes(cluster):
        for _ in range(3):
            job_id = await cluster.sbatch(BOB, "#!/bin/sh\ntrue\n", "--output=/dev/null")
            await in_state(cluster, job_id, "COMPLETED")


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
        await until(lambda: not listening(port), seconds=90, what="the end of slurmd with its launcher")

        resources = f"CPUs=2 RealMemory=4096 Feature=compute Port={port}"
        slurmd = ["slurmd", "-D", "-Z", "-N", "w6", "-f", "/etc/slurm/slurm.conf", "--conf", resources, "--extra", OPEN]

        second = await start("w6", [*cluster.launcher, *slurmd], log=cluster.log_dir / "w6.out")
        await until(lambda: listening(port), seconds=90, what="the next slurmd", process=second)

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
    await until(is_saved, seconds=90, what="slurmctld to save the job")

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
    await until(lambda: process.tail() == "ready", seconds=90, what="the trap", process=process)
    assert await process.stop() == 3
    assert process.tail() == "ready\nterminated"
