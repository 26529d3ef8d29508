"""A whole Slurm control plane on one machine: slurmctld, slurmdbd with its database, and slurmrestd."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from joserfc import jwt
from joserfc.jwk import OctKey
from pydantic import BaseModel, ConfigDict, PrivateAttr

from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.config import JWT_KEY, RESUME_LOG, SHARED_PATH, SLURM_KEY, PowerSaving, SlurmConfig
from clusterra_lab.slurm.daemon import READY_SECONDS, Daemon, DaemonName, RunningDaemon, launch, listening
from clusterra_lab.slurm.directory import SlurmDirectory
from clusterra_lab.slurm.namespace import INIT, command_line
from clusterra_lab.slurm.provider import Provider, first_possible

OPERATOR = SlurmUser(name="clusterra-operator", uid=2001, gid=2001)
_SLURMRESTD_UID = "64101"
"""Any that is neither root's nor SlurmUser's, which slurmrestd refuses to run as."""

_RECONFIGURE_SECONDS = 0.42
"""The fraction of a second of the clock at which slurmctld is told to read its configuration again."""


class SlurmNotRunning(LabProblem):
    """No cluster runs in a folder."""


class CommandFailed(LabProblem):
    """A command inside a cluster ended with an error; the text carries what it said."""


class SlurmCluster(BaseModel):
    """A running cluster, as any process of this machine can use it."""

    model_config = ConfigDict(frozen=True)

    name: str
    slurmrestd_url: str
    slurmctld_address: str
    slurmctld_port: int
    slurm_key_file: Path
    """What the cluster's machines know each other by. Only root and Slurm itself can read it."""
    jwt_key_file: Path
    """Signs users' tokens (HS256). Only root and Slurm itself can read it."""
    operator: SlurmUser
    """The service user for upkeep: draining and deleting nodes take slurmdbd's level Administrator, Operator is not
    enough. A cluster with power saving has no slurmdbd and no operator."""
    shared_dir: Path
    shared_path: str = SHARED_PATH
    """The same folder as jobs see it."""
    spool_dir: Path
    """Holds a folder for each slurmd by its node's name."""
    log_dir: Path
    launcher: tuple[str, ...]
    """Put before a command, runs it inside the cluster as root; see `Namespace.launcher`."""
    init_pid: int
    resume_log: Path | None = None
    """With power saving: a line `<seconds of the epoch> <nodes>` for each call of ResumeProgram."""

    async def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        input: str | None = None,  # noqa: A002
    ) -> CompletedProcess[str]:
        """Run a command inside as root, with `env` alone as its environment, to its end, whatever its exit code."""
        process = await asyncio.create_subprocess_exec(
            *self.launcher,
            *argv,
            env=dict(env or {}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, error = await process.communicate((input or "").encode())
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return CompletedProcess(argv, process.returncode or 0, out.decode(), error.decode())

    def token(self, name: str, uid: int, gid: int, seconds: float = 300, groups: Sequence[int] = ()) -> str:
        """A token for one user, who needs no account: Slurm takes the whole identity from it."""
        now = int(time.time())
        identity = {
            "name": name,
            "gecos": name,
            "dir": self.shared_path,
            "shell": "/bin/sh",
            "gids": sorted({gid, *groups}),
        }
        claims = {"iat": now, "exp": now + int(seconds), "uid": uid, "gid": gid, "id": identity}
        return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(self.jwt_key_file.read_bytes()))

    async def sbatch(self, user: SlurmUser, script: str, *args: str) -> str:
        """Submit from the shared folder, as a user of a login node does; return the job's id. Raises CommandFailed."""
        token = self.token(user.name, user.uid, user.gid, groups=user.groups)
        ids = [f"--reuid={user.uid}", f"--regid={user.gid}"]
        ids.append(f"--groups={','.join(map(str, user.groups))}" if user.groups else "--clear-groups")
        sbatch = await self.run(
            *("env", f"--chdir={self.shared_path}", "setpriv", *ids, "sbatch", "--parsable", *args),
            env={"SLURM_JWT": token},
            input=script,
        )
        if sbatch.returncode != 0:
            raise CommandFailed(f"sbatch: {sbatch.stderr.strip()}")
        return sbatch.stdout.strip().partition(";")[0]

    async def admits(self) -> bool:
        """Whether there is anything that a job could be accepted for, be it to come."""
        return bool((await _checked(self, "sinfo", "--future", "--noheader", "--Node", "--format=%N")).strip())

    async def admit(self, name: str, *, cpus: int, memory_mib: int, features: Sequence[str]) -> None:
        """Have a placeholder, so that jobs for such a worker are accepted while there is none; the proxy keeps its own.

        Raises CommandFailed.
        """
        resources = (f"cpus={cpus}", f"realmemory={memory_mib}", f"features={','.join(features)}")
        await _checked(self, "scontrol", "create", f"nodename={name}", *resources, "state=FUTURE")
        await _checked(self, "scontrol", "update", f"nodename={name}", f"extra={OPEN}")


class OwnedSlurmCluster(SlurmCluster):
    """A cluster in the hands of whoever started it, who may also kill and restart its daemons."""

    _daemons: dict[DaemonName, RunningDaemon] = PrivateAttr(default_factory=dict)

    def __getitem__(self, name: DaemonName) -> RunningDaemon:
        """One of its daemons. Raises KeyError for what it does not have."""
        return self._daemons[name]


def attach(directory: Path) -> SlurmCluster:
    """The cluster that another process runs in a folder. Raises SlurmNotRunning."""
    description = SlurmDirectory(directory.resolve()).description
    if description.exists():
        cluster = SlurmCluster.model_validate_json(description.read_bytes())
        # A killed one has no command line any more, even while it is in the process table.
        if command_line(cluster.init_pid)[:1] == [INIT]:
            return cluster
    raise SlurmNotRunning(f"no Slurm runs in {directory}: start one there first")


@asynccontextmanager
async def slurm_cluster(
    directory: Path,
    *,
    name: str = "lab",
    max_nodes: int | None = None,
    power_saving: PowerSaving | None = None,
    address: str = "127.0.0.1",
    one_host: bool = True,
    settings: Sequence[str] = (),
    provider: Provider = first_possible,
    progress: Progress = silent,
) -> AsyncIterator[OwnedSlurmCluster]:
    """Start a control plane without any node, in a folder of its own; a later one there goes on with its state.

    slurmctld and slurmdbd listen on `address` of this machine, slurmrestd on 127.0.0.1. With `one_host` workers are
    processes of this machine, too, else pods with folders of their own.
    Jobs are accepted once there is a node or a placeholder (`admit`) that fits them. With `power_saving`, Slurm's
    own scaling from zero is on and there is no accounting. `settings` are more lines of slurm.conf. Needs root.
    Raises LabProblem, TimeoutError.
    """
    open_namespaces = await provider(progress)
    progress("Slurm")
    folders = SlurmDirectory(directory.resolve())
    config = SlurmConfig(name, free_port(), free_port(), power_saving, address, one_host, max_nodes, settings)
    folders.prepare(config)
    async with AsyncExitStack() as running:
        inside = await running.enter_async_context(open_namespaces(folders))
        slurmrestd_port = free_port()
        cluster = OwnedSlurmCluster(
            name=name,
            slurmrestd_url=f"http://127.0.0.1:{slurmrestd_port}",
            slurmctld_address=address,
            slurmctld_port=config.slurmctld_port,
            slurm_key_file=folders.etc / SLURM_KEY,
            jwt_key_file=folders.etc / JWT_KEY,
            operator=OPERATOR,
            shared_dir=folders.shared,
            spool_dir=folders.spool,
            log_dir=folders.logs,
            launcher=inside.launcher,
            init_pid=inside.init_pid,
            resume_log=folders.logs / RESUME_LOG if power_saving else None,
        )
        for daemon in _daemons(cluster, config, folders, slurmrestd_port):
            started = await launch(daemon, cluster.launcher, folders.logs)
            running.push_async_callback(started.stop if daemon.name == "slurmctld" else started.kill)
            cluster._daemons[daemon.name] = started
        if not power_saving:
            await _appoint_operator(cluster)
        folders.description.write_text(cluster.model_dump_json(indent=2))
        running.callback(folders.description.unlink)
        yield cluster


def _daemons(cluster: SlurmCluster, config: SlurmConfig, folders: SlurmDirectory, slurmrestd_port: int) -> list[Daemon]:
    """In the order in which they need each other."""

    async def mariadbd() -> bool:
        return (await cluster.run("mariadb-admin", "ping")).returncode == 0

    async def slurmdbd() -> bool:
        return listening(config.slurmdbd_port)

    async def slurmctld() -> bool:
        return (await cluster.run("scontrol", "ping")).returncode == 0

    async def settle() -> None:
        """Bring slurmctld into a state in which it survives SIGKILL and starts jobs soon.

        Until it first saves its state, minutes later, it would not start again after SIGKILL. And it looks for jobs to
        start at each full second, its backfill thread each second since it came up: so that the two take turns, and a
        job waits for half a second at most, it comes up half-way.
        """
        await asyncio.sleep((_RECONFIGURE_SECONDS - time.time()) % 1.0)
        await _checked(cluster, "scontrol", "reconfigure")
        await until(slurmctld, seconds=READY_SECONDS, what="slurmctld to be ready again")

    async def slurmrestd() -> bool:
        return listening(slurmrestd_port)

    accounting = [
        Daemon("mariadbd", ["mariadbd"], "mysql", mariadbd),
        Daemon("slurmdbd", ["slurmdbd", "-D"], "slurm", slurmdbd),
    ]
    return [
        *([] if config.power_saving else accounting),
        Daemon("slurmctld", ["slurmctld", "-D"], "slurm", slurmctld, prepare=folders.mend_state, settle=settle),
        Daemon(
            "slurmrestd",
            ["slurmrestd", "-a", "rest_auth/jwt", f"127.0.0.1:{slurmrestd_port}"],
            _SLURMRESTD_UID,
            slurmrestd,
            # The token comes with each request. User namespaces may be closed, and ours are private anyway.
            ["SLURM_JWT=daemon", "SLURMRESTD_SECURITY=disable_unshare_files,disable_unshare_sysv"],
        ),
    ]


async def _appoint_operator(cluster: SlurmCluster) -> None:
    known = await _checked(cluster, "sacctmgr", "--noheader", "--parsable2", "show", "user", OPERATOR.name)
    if not known.strip():
        await _checked(cluster, "sacctmgr", "--immediate", "add", "account", "name=operators")
        await _checked(
            cluster,
            *("sacctmgr", "--immediate", "add", "user", f"name={OPERATOR.name}"),
            *("account=operators", "adminlevel=administrator"),
        )


async def _checked(cluster: SlurmCluster, *argv: str) -> str:
    done = await cluster.run(*argv)
    if done.returncode != 0:
        raise CommandFailed(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
