"""A real Slurm for these tests: users without accounts, plain sbatch, workers."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.slurm.config import ClusterOptions
from clusterra_lab.slurm.control_plane import DEFAULT_OPTIONS, OwnedSlurmCluster, slurm_cluster
from clusterra_proxy.admission.placeholders import PREFIX
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import NotFound
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld

SHAPES = (
    Shape(name="general-xlarge", family="general", size="xlarge", vcpu=64, memory_gib=256, usd_per_hour=1),
    Shape(name="memory-small", family="memory", size="small", vcpu=4, memory_gib=32, usd_per_hour=0.2),
)


@dataclass
class SlurmWorld:
    """A control plane, with operations that bypass the proxy."""

    cluster: OwnedSlurmCluster
    directory: Path
    _users: "itertools.count[int]" = field(default_factory=lambda: itertools.count(5001))

    @property
    def operator(self) -> SlurmUser:
        """The proxy's own service user."""
        return self.cluster.operator

    @property
    def shared(self) -> Path:
        """The shared folder's path on this machine."""
        return self.cluster.shared_dir

    @property
    def shared_path(self) -> str:
        """The shared folder's path in jobs."""
        return self.cluster.shared_path

    def new_user(self) -> SlurmUser:
        """A user with an unused name and uid."""
        uid = next(self._users)
        return SlurmUser(name=f"user{uid}", uid=uid, gid=uid)

    def token(self, user: SlurmUser, seconds: float = 300) -> str:
        """A token as the proxy mints it."""
        return self.cluster.token(user.name, user.uid, user.gid, seconds=seconds)

    async def home(self, user: SlurmUser, *folders: str) -> str:
        """The path of a user's home in jobs. It is made with these folders, as a job on a worker has it made."""
        home = user.home_in(self.shared_path)
        paths = (home, *(f"{home}/{folder}" for folder in folders))
        owner = (f"--owner={user.uid}", f"--group={user.gid}", "--mode=0700")
        made = await self.cluster.run("install", "--directory", *owner, *paths)
        assert made.returncode == 0, made
        return home

    async def add_account(self, name: str) -> None:
        """Make an account in slurmdbd, as an operator does. One that is there stays."""
        done = await self.cluster.run("sacctmgr", "--immediate", "add", "account", f"name={name}")
        is_there = "Nothing new added" in done.stdout or "Already existing account" in done.stdout
        assert done.returncode == 0 or is_there, done

    async def give_operator_level(self, level: str) -> None:
        """Set the admin level of the proxy's service user in slurmdbd."""
        change = ("set", f"adminlevel={level}")
        done = await self.cluster.run("sacctmgr", "--immediate", "modify", "user", self.operator.name, *change)
        assert done.returncode == 0 or "Nothing modified" in done.stdout, done

    @asynccontextmanager
    async def slurmctld(self) -> AsyncIterator[Slurmctld]:
        """A client of slurmctld that bypasses the proxy."""
        async with Slurmrestd(self.cluster.slurmrestd_url) as slurmrestd:
            yield Slurmctld(slurmrestd)

    async def purge_finished_jobs(self, *job_ids: str) -> None:
        """Wait until these jobs have ended and slurmctld has purged them, after a MinJobAge of 2 s."""
        await self._configure("MinJobAge=300", "MinJobAge=2")
        try:
            async with self.slurmctld() as slurmctld:

                async def purged() -> bool:
                    rows = (await slurmctld.states(self.token(self.operator))).jobs
                    known = {row.job_id.partition("+")[0] for row in rows}
                    return not known & set(job_ids)

                await until(purged, seconds=90, what="slurmctld to purge its finished jobs", every=0.2)
        finally:
            await self._configure("MinJobAge=2", "MinJobAge=300")

    @asynccontextmanager
    async def scripts_not_kept(self) -> AsyncIterator[None]:
        """Within the block, accounting keeps no scripts of the jobs that are submitted."""
        await self._configure("AccountingStoreFlags=job_comment,job_script", "AccountingStoreFlags=job_comment")
        try:
            yield
        finally:
            await self._configure("AccountingStoreFlags=job_comment", "AccountingStoreFlags=job_comment,job_script")

    async def reconfigure(self) -> None:
        """Make slurmctld read its configuration again."""
        done = await self.cluster.run("scontrol", "reconfigure")
        assert done.returncode == 0, done

    async def kill_slurmctld(self) -> None:
        """Kill slurmctld with SIGKILL and start it again."""
        await self.cluster["slurmctld"].kill()
        await self.cluster["slurmctld"].start()

    async def delete_node_record(self, name: str) -> None:
        """Delete the record of a stopped worker."""
        done = await self.cluster.run("scontrol", "delete", f"nodename={name}")
        assert done.returncode == 0, done

    async def _configure(self, before: str, after: str) -> None:
        conf = self.directory / "slurm" / "etc" / "slurm.conf"
        text = conf.read_text()
        assert before in text
        conf.write_text(text.replace(before, after))
        await self.reconfigure()

    @asynccontextmanager
    async def worker(
        self, name: str, *, cpus: int = 4, memory_mib: int = 8000, features: str = "general", gres: str = ""
    ) -> AsyncIterator[Process]:
        """Run the slurmd of a dynamic node, once it has registered. Its record remains after the block."""
        conf = f"CPUs={cpus} RealMemory={memory_mib} Port={free_port()} Feature={features}{gres and f' Gres={gres}'}"
        argv = [*self.cluster.launcher, "slurmd", "-D", "-Z", "-N", name, "--conf", conf, "--extra", OPEN]
        process = await start(name, argv, log=self.directory / f"{name}.log")
        try:
            async with self.slurmctld() as slurmctld:

                async def registered() -> bool:
                    try:
                        node = await slurmctld.node(self.token(self.operator), name)
                    except NotFound:
                        return False
                    return "IDLE" in node.state

                await until(registered, seconds=90, what=f"node {name}", every=0.05, process=process)
            yield process
        finally:
            await process.stop()

    def binding(self, name: str) -> ClusterBinding:
        """The cluster's binding in the registry."""
        return ClusterBinding(
            name=name,
            slurmrestd_url=self.cluster.slurmrestd_url,
            jwt_key=f"file:{self.cluster.jwt_key_file}",
            operator=self.operator,
            shared_path=self.shared_path,
            catalogue=Catalogue(shapes=SHAPES),
        )


async def placeholder_names(slurm: SlurmWorld) -> list[str]:
    """The names of all placeholders in Slurm."""
    shown = await slurm.cluster.run("sinfo", "--future", "--noheader", "--Node", "--format=%N")
    return [name for name in shown.stdout.split() if name.startswith(PREFIX)]


@asynccontextmanager
async def slurm_world(directory: Path, options: ClusterOptions = DEFAULT_OPTIONS) -> AsyncIterator[SlurmWorld]:
    """A control plane without any node."""
    async with slurm_cluster(directory / "slurm", options) as cluster:
        yield SlurmWorld(cluster, directory)
