"""The process substrate with real slurmd and a real slurmctld."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import SlurmUser, WorkerName
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.logs import job_output
from clusterra_edge_agent.process.gentle_end import GentleEnd, Scontrol
from clusterra_edge_agent.process.one_by_one import WorkerBusy
from clusterra_edge_agent.process.record import ProcessRecord
from clusterra_edge_agent.process.slurmd import Slurmd
from clusterra_edge_agent.process.substrate import ProcessSubstrate
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.config import ETC, ClusterOptions
from clusterra_lab.slurm.control_plane import OwnedSlurmCluster, SlurmCluster, slurm_cluster
from pydantic import TypeAdapter

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

ALICE = SlurmUser(name="alice", uid=5001, gid=5001)
SPEC = WorkerSpec(cpus=16, memory_mib=131072, features=("memory", "memory-large"))
JOB_SECONDS = 30.0


class Site:
    """One cluster, and the folder of the agents that start and stop."""

    def __init__(self, cluster: OwnedSlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.ports = range(first := free_port(), first + 50)

    @asynccontextmanager
    async def substrate(self) -> AsyncIterator[ProcessSubstrate]:
        slurmd = Slurmd(self.cluster.launcher, "slurmd", f"{ETC}/slurm.conf", None, "scontrol")
        spool = f"{self.cluster.spool_dir}/{{worker}}"
        substrate = ProcessSubstrate(slurmd, self.folder, ports=self.ports, spool=spool)
        substrate.adopt()
        boots = asyncio.create_task(substrate.run())
        try:
            yield substrate
        finally:
            boots.cancel()
            substrate.close()

    def launcher_pid(self, name: WorkerName) -> int:
        file = self.folder / "workers" / f"{name}.json"
        record = TypeAdapter(ProcessRecord).validate_json(file.read_text())
        return record.process.pid

    async def squeue(self, job_id: str) -> str:
        shown = await self.cluster.run("squeue", "--noheader", f"--jobs={job_id}", "--states=all", "--format=%T %N")
        return shown.stdout.strip()

    async def remove(self, substrate: ProcessSubstrate, name: WorkerName) -> None:
        """Removes a worker once the job steps there have ended."""

        async def removed() -> bool:
            try:
                await substrate.remove(name)
            except WorkerBusy:
                return False
            return True

        await until(removed, seconds=JOB_SECONDS, what=f"the end of the job steps of {name}", every=0.05)

    async def until_running(self, job_id: str) -> WorkerName:
        """Waits until a job's script has written something. Returns its worker."""

        async def where() -> str | None:
            state, _, node = (await self.squeue(job_id)).partition(" ")
            return node if state == "RUNNING" and output(self.cluster, job_id) else None

        return await until(where, seconds=JOB_SECONDS, what=f"job {job_id} to run", every=0.05)

    @asynccontextmanager
    async def forgotten_afterwards(self) -> AsyncIterator[None]:
        """At the end slurmctld is killed before it has stored anything that has happened within."""
        slurmctld, state, stored = (
            self.cluster["slurmctld"],
            "/var/spool/slurmctld",
            f"{self.cluster.shared_path}/stored",
        )
        await slurmctld.stop()
        await self.cluster.run("cp", "--archive", state, stored)
        await slurmctld.start()
        yield
        await slurmctld.kill()
        await self.cluster.run("cp", "--archive", f"{stored}/.", state)
        await slurmctld.start()

    async def until_registered(self, *names: WorkerName) -> None:
        async def known() -> bool:
            shown = await self.cluster.run("sinfo", "--noheader", "--Node", "--format=%N %T")
            return {f"{name} idle" for name in names} <= set(shown.stdout.splitlines())

        await until(known, seconds=JOB_SECONDS, what=f"{names} to register", every=0.05)


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OwnedSlurmCluster]:
    # As with a private /tmp, each job has a step `extern`.
    options = ClusterOptions(settings=("PrologFlags=Contain",))
    async with slurm_cluster(tmp_path_factory.mktemp("slurm"), options) as cluster:
        await cluster.admit("large", cpus=SPEC.cpus, memory_mib=SPEC.memory_mib, features=SPEC.features)
        yield cluster


@pytest.fixture
async def site(cluster: OwnedSlurmCluster, tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(cluster, tmp_path)
    yield site
    await cluster.run("scancel", f"--user={ALICE.uid}")
    async with site.substrate() as substrate:
        for worker in await substrate.workers():
            await site.remove(substrate, worker.name)
        await until_workers(substrate, lambda workers: all(worker.phase == "failed" for worker in workers))
    for node in (await cluster.run("sinfo", "--noheader", "--Node", "--format=%N")).stdout.split():
        await cluster.run("scontrol", "delete", f"nodename={node}")


async def until_workers(
    substrate: ProcessSubstrate, condition: Callable[[tuple[Worker, ...]], bool]
) -> tuple[Worker, ...]:
    async def matching() -> bool:
        return condition(await substrate.workers())

    await until(matching, seconds=90, what="the workers", every=0.01)
    return await substrate.workers()


def output(cluster: SlurmCluster, job_id: str) -> str:
    """Returns what a job has written. The prolog makes the file before the script begins."""
    file = cluster.shared_dir / f"job_{job_id}.out"
    return file.read_text() if file.exists() else ""


def steps(cluster: SlurmCluster, job_id: str, step: str = "batch") -> list[str]:
    """Returns the command lines of a job's step on this cluster. Other clusters here have the same job ids."""
    namespace = _pid_namespace(cluster.init_pid)
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if f"[{job_id}.{step}]" in " ".join(process.info["cmdline"] or ()) and _pid_namespace(process.pid) == namespace
    ]


def _pid_namespace(pid: int) -> str:
    """Returns the PID namespace of a process, or nothing when it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


async def test_workers_register_with_their_shapes_resources_and_leave_nothing_behind(site: Site) -> None:
    async with site.substrate() as substrate:
        names = [await substrate.start("memory-large", SPEC) for _ in range(3)]
        await until_workers(substrate, lambda workers: all(worker.phase == "running" for worker in workers))
        await site.until_registered(*names)
        node = (await site.cluster.run("scontrol", "show", "node", names[0])).stdout

        assert "CPUTot=16" in node
        assert "RealMemory=131072" in node
        assert "ActiveFeatures=memory,memory-large" in node
        assert (site.cluster.spool_dir / names[0]).is_dir()

        for name in names:
            await substrate.remove(name)
        await until_workers(substrate, lambda workers: not workers)
        assert [event.fact.kind for event in substrate.pending_events()] == ["worker.started", "worker.stopped"] * 3
        assert not any((site.cluster.spool_dir / name).exists() for name in names)


async def test_a_job_keeps_running_while_its_agent_is_replaced(site: Site) -> None:
    script = f"#!/bin/bash\nid -u; until [ -e {site.cluster.shared_path}/goal ]; do sleep 0.1; done; echo done\n"
    async with site.substrate() as substrate:
        name = await substrate.start("memory-large", SPEC)
        job_id = await site.cluster.sbatch(ALICE, script, "--output=job_%j.out", "--constraint=memory-large")
        assert await site.until_running(job_id) == name
    async with site.substrate() as substrate:
        workers = await until_workers(substrate, lambda workers: [worker.phase for worker in workers] == ["running"])
        assert workers[0].name == name
        (site.cluster.shared_dir / "goal").touch()

        async def completed() -> bool:
            return (await site.squeue(job_id)).startswith("COMPLETED")

        await until(completed, seconds=JOB_SECONDS, what="the end of the job", every=0.05)
        place = job_output.find(site.cluster.shared_dir, job_id, "stdout", ALICE.uid)
        assert job_output.read(site.cluster.shared_dir, place, ALICE.uid, 0, 100) == (b"5001\ndone\n", 10)
        with pytest.raises(job_output.NoSuchOutput):
            job_output.find(site.cluster.shared_dir, job_id, "stdout", ALICE.uid + 1)


async def test_a_worker_on_which_a_job_runs_is_not_removed(site: Site) -> None:
    async with site.substrate() as substrate:
        name = await substrate.start("memory-large", SPEC)
        job_id = await site.cluster.sbatch(ALICE, "#!/bin/bash\necho up; sleep 600\n", "--output=job_%j.out")
        assert await site.until_running(job_id) == name

        with pytest.raises(WorkerBusy, match=rf"{job_id}\."):
            await substrate.remove(name)

        assert [worker.phase for worker in await substrate.workers()] == ["running"]
        assert steps(site.cluster, job_id)

        await site.cluster.run("scancel", job_id)
        await until(lambda: not steps(site.cluster, job_id), seconds=JOB_SECONDS, what="the end of the job", every=0.05)
        await site.remove(substrate, name)
        await until_workers(substrate, lambda workers: not workers)


async def test_a_worker_that_is_removed_drains_its_node_and_waits_for_its_jobs(site: Site) -> None:
    """Somebody has resumed the node, and Slurm has started a job there right before the removal."""
    script = f"#!/bin/bash\necho up; until [ -e {site.cluster.shared_path}/end ]; do sleep 0.1; done; echo done\n"
    async with site.substrate() as substrate:
        name = await substrate.start("memory-large", SPEC)
        job_id = await site.cluster.sbatch(ALICE, script, "--output=job_%j.out", "--constraint=memory-large")
        assert await site.until_running(job_id) == name
        substrate._update(substrate._tracked[name], removing=True)

    async with site.substrate() as substrate:

        async def drains() -> bool:
            return "DRAIN" in (await site.cluster.run("scontrol", "show", "node", name)).stdout

        await until(drains, seconds=JOB_SECONDS, what="the drain", every=0.05)

        assert [worker.phase for worker in await substrate.workers()] == ["terminating"]
        assert steps(site.cluster, job_id)

        (site.cluster.shared_dir / "end").touch()
        await until_workers(substrate, lambda workers: not workers)

    assert (await site.squeue(job_id)).startswith("COMPLETED")


async def test_a_removed_worker_leaves_no_node_that_somebody_could_resume(site: Site) -> None:
    async with site.substrate() as substrate:
        name = await substrate.start("memory-large", SPEC)
        await site.until_registered(name)

        await site.remove(substrate, name)
        await until_workers(substrate, lambda workers: not workers)

        resume = f"scontrol update nodename={name} state=resume; true"
        assert "Invalid node name" in (await site.cluster.run("bash", "-c", f"({resume}) 2>&1")).stdout


async def test_a_worker_whose_node_gets_a_job_right_before_its_deletion_waits_for_the_job(site: Site) -> None:
    """Somebody resumes the node between the last look of the agent and the deletion of the node."""
    started: list[str] = []

    class ResumedBefore(Scontrol):
        async def delete(self, worker: WorkerName) -> None:
            if not started:
                await site.cluster.run("scontrol", "update", f"nodename={worker}", "state=resume")
                started.append(
                    await site.cluster.sbatch(ALICE, "#!/bin/bash\necho up; sleep 1\n", "--output=job_%j.out")
                )
                assert await site.until_running(started[0]) == worker
            await super().delete(worker)

    async with site.substrate() as substrate:
        name = await substrate.start("memory-large", SPEC)
        await site.until_registered(name)
        scontrol = substrate._slurmd.scontrol
        assert scontrol is not None
        substrate._gentle_end = GentleEnd(ResumedBefore(scontrol.argv, scontrol.conf), JOB_SECONDS)

        await site.remove(substrate, name)
        await until_workers(substrate, lambda workers: not workers)

    assert (await site.squeue(started[0])).startswith("COMPLETED")


@pytest.mark.parametrize("victim", ["launcher", "slurmd"])
async def test_job_steps_end_with_their_worker(site: Site, victim: str) -> None:
    async with site.substrate() as substrate:
        name = await substrate.start("memory-large", SPEC)
        job_id = await site.cluster.sbatch(ALICE, "#!/bin/bash\necho up; sleep 600\n", "--output=job_%j.out")
        assert await site.until_running(job_id) == name
        assert steps(site.cluster, job_id)

        launcher = psutil.Process(site.launcher_pid(name))
        chosen = launcher if victim == "launcher" else launcher.children()[0]
        chosen.send_signal(signal.SIGKILL)
        workers = await until_workers(substrate, lambda workers: [worker.phase for worker in workers] == ["failed"])

        assert workers[0].name == name
        assert steps(site.cluster, job_id) == []
        assert not (site.cluster.spool_dir / name).exists()


async def test_a_job_that_slurm_has_forgotten_does_not_hold_its_worker(site: Site) -> None:
    """Nobody ends the step `extern` of such a job."""
    script = f"#!/bin/bash\necho up; until [ -e {site.cluster.shared_path}/forgotten ]; do sleep 0.1; done\n"
    async with site.substrate() as substrate:
        async with site.forgotten_afterwards():
            name = await substrate.start("memory-large", SPEC)
            job_id = await site.cluster.sbatch(ALICE, script, "--output=job_%j.out", "--constraint=memory-large")
            assert await site.until_running(job_id) == name

        with pytest.raises(WorkerBusy, match="run there"):
            await substrate.remove(name)
        (site.cluster.shared_dir / "forgotten").touch()

        assert steps(site.cluster, job_id, "extern")
        await site.remove(substrate, name)
        await until_workers(substrate, lambda workers: not workers)

        await until(
            lambda: not steps(site.cluster, job_id, "extern"), seconds=90, what="the end of the forgotten job's step"
        )
