"""A real control plane with the workers' scripts, for tests."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.config import ClusterOptions
from clusterra_lab.slurm.control_plane import OwnedSlurmCluster, slurm_cluster
from clusterra_lab.slurm.isolation import Isolation

SCRIPTS = Path(__file__).parent.parent
INSIDE = "/mnt/efs/clusterra"
"""The folder of the scripts in the cluster's namespaces; images have them in /usr/lib/clusterra."""
SECONDS = 60.0
ALICE = SlurmUser(name="alice", uid=5001, gid=5001)
BOB = SlurmUser(name="bob", uid=5002, gid=5002)

_SLURM_CONF = f"""
HealthCheckProgram={INSIDE}/worker-limits
HealthCheckInterval=4
HealthCheckTimeout=3
HealthCheckNodeState=ALLOC,MIXED
Prolog=prolog
Epilog=epilog
TaskProlog=task-prolog
"""
_REPLACED = (
    "HealthCheckProgram=",
    "HealthCheckInterval=",
    "HealthCheckTimeout=",
    "HealthCheckNodeState=",
    "Prolog=",
    "Epilog=",
    "TaskProlog=",
    "SlurmdPort=",
)


class Site:
    """A cluster whose slurmctld sends its prolog and epilog to each slurmd."""

    def __init__(self, cluster: OwnedSlurmCluster) -> None:
        self.cluster = cluster

    async def configure(self) -> None:
        """Let slurmctld send the scripts and README.md's gres.conf, and restart jobs of lost nodes without delay."""
        etc = self.cluster.log_dir.parent / "etc"
        for name in ("prolog", "epilog", "task-prolog"):
            shutil.copy(SCRIPTS / name, etc)
        conf = etc / "slurm.conf"
        lines = [line for line in conf.read_text().splitlines() if not line.startswith(_REPLACED)]
        lines = [line + ",requeue_delay=1" if line.startswith("SchedulerParameters=") else line for line in lines]
        # By default each slurmd listens on Slurm's standard port, which other tests may use at the same time.
        conf.write_text("\n".join([*lines, _SLURM_CONF, f"SlurmdPort={free_port()}\n"]))
        (etc / "gres.conf").write_text("AutoDetect=nvidia\n")
        shutil.copytree(SCRIPTS, self.cluster.shared_dir / "clusterra", ignore=shutil.ignore_patterns("tests"))
        await self.ask("reconfigure")

    async def ask(self, *argv: str) -> str:
        """Run scontrol and return its output."""
        done = await self.cluster.run("scontrol", *argv)
        return done.stdout + done.stderr

    async def submit(self, user: SlurmUser, script: str, *args: str) -> str:
        """Submit a job whose output `output` reads, and return its id."""
        script = f"#!/bin/bash\n{script}\n"
        return await self.cluster.sbatch(user, script, "--output=job_%j.out", "--mem=64", *args)

    def output(self, job_id: str) -> str:
        """The output of a job; empty before it starts."""
        file = self.cluster.shared_dir / f"job_{job_id}.out"
        return file.read_text() if file.exists() else ""

    async def has_written(self, job_id: str, text: str) -> None:
        await until(lambda: text in self.output(job_id), seconds=SECONDS, what=f"{text!r} of job {job_id}", every=0.05)

    async def state(self, job_id: str) -> str:
        shown = await self.cluster.run("squeue", "--noheader", f"--jobs={job_id}", "--states=all", "--format=%T")
        return shown.stdout.strip()

    async def in_state(self, job_id: str, *wanted: str) -> None:
        async def reached() -> bool:
            return await self.state(job_id) in wanted

        try:
            await until(reached, seconds=SECONDS, what=f"job {job_id} to be {' or '.join(wanted)}", every=0.05)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {await self.ask('show', 'job', job_id)}") from error

    async def node(self, name: str) -> tuple[str, str]:
        """The node's state and its reason; empty if Slurm has no such node."""
        shown = await self.cluster.run("sinfo", "--noheader", "--nodes", name, "--format=%T %E")
        state, _, reason = shown.stdout.strip().partition(" ")
        return state, reason

    async def registered(self, name: str) -> None:
        """Wait for a node's registration; it may already run a job by then."""

        async def takes_jobs() -> bool:
            return (await self.node(name))[0] in ("idle", "mixed", "allocated")

        await until(takes_jobs, seconds=SECONDS, what=f"{name} to register", every=0.05)

    async def idle(self, name: str) -> None:
        """Wait until a node is idle, without a reason. A job counts as completed a moment before its node is idle."""

        async def is_idle() -> bool:
            return await self.node(name) == ("idle", "none")

        await until(is_idle, seconds=SECONDS, what=f"{name} to be idle", every=0.05)


@asynccontextmanager
async def worker_site(
    folder: Path, *, isolation: Isolation = "polled", private_tmp: bool = False, address: str = "127.0.0.1"
) -> AsyncIterator[Site]:
    """Run a cluster without workers, with slurmctld at an address, until the block ends. Raises LabProblem."""
    options = ClusterOptions(isolation=isolation, private_tmp=private_tmp, address=address)
    async with slurm_cluster(folder, options) as cluster:
        site = Site(cluster)
        await site.configure()
        yield site
