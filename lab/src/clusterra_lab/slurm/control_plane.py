"""Runs a Slurm control plane on this machine: slurmctld, slurmdbd with its database, and slurmrestd."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
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
from clusterra_lab.slurm import plugins
from clusterra_lab.slurm.config import JWT_KEY, RESUME_LOG, SCRIPTS, SHARED_PATH, SLURM_KEY, ClusterOptions, SlurmConfig
from clusterra_lab.slurm.daemon import READY_SECONDS, Daemon, DaemonName, RunningDaemon, launch, listening
from clusterra_lab.slurm.directory import SlurmDirectory
from clusterra_lab.slurm.namespace import INIT, command_line
from clusterra_lab.slurm.provider import Provider, first_available

OPERATOR = SlurmUser(name="clusterra-operator", uid=2001, gid=2001)
DEFAULT_OPTIONS = ClusterOptions()
_SLURMRESTD_UID = "64101"
"""Any uid except those of root and SlurmUser, as which slurmrestd does not run."""

_RECONFIGURE_SECONDS = 0.42
"""The fraction of a second, by the clock, at which slurmctld is told to reconfigure."""


class SlurmNotRunning(LabProblem):
    """No cluster is running in the folder."""


class CommandFailed(LabProblem):
    """A command inside a cluster ended with an error; the text has its error output."""


class SlurmCluster(BaseModel):
    """A running cluster, usable by any process of this machine."""

    model_config = ConfigDict(frozen=True)

    name: str
    slurmrestd_url: str
    slurmctld_address: str
    slurmctld_port: int
    slurm_key_file: Path
    """The key with which the cluster's machines authenticate each other. Only root and Slurm itself can read it."""
    jwt_key_file: Path
    """The key that signs users' tokens (HS256). Only root and Slurm itself can read it."""
    operator: SlurmUser
    """The service user that drains and deletes nodes. This needs slurmdbd's level Administrator; Operator is not
    enough. A cluster with power saving has no slurmdbd and no such user."""
    shared_dir: Path
    shared_path: str = SHARED_PATH
    """The path of `shared_dir` in jobs."""
    spool_dir: Path
    """Has a folder for each slurmd, named like its node."""
    log_dir: Path
    launcher: tuple[str, ...]
    """Put before a command, runs it inside the cluster as root; see `Namespace.launcher`."""
    init_pid: int
    resume_log: Path | None = None
    """With power saving, a file with a line `<seconds since the epoch> <nodes>` for each call of ResumeProgram."""

    async def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        input: str | None = None,  # noqa: A002
    ) -> CompletedProcess[str]:
        """Run a command inside the cluster as root to its end, with only `env` as its environment."""
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
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        return CompletedProcess(argv, process.returncode or 0, out.decode(), error.decode())

    def token(self, name: str, uid: int, gid: int, seconds: float = 300) -> str:
        """Make a token for a user, who needs no account: Slurm takes the whole identity from the token."""
        return self.token_of(SlurmUser.model_construct(name=name, uid=uid, gid=gid), seconds)

    def token_of(self, user: SlurmUser, seconds: float = 300) -> str:
        """Make a token for a user with all their groups."""
        now = int(time.time())
        identity = {
            "name": user.name,
            "gecos": user.name,
            "dir": user.home_in(self.shared_path),
            "shell": "/bin/sh",
            "groups": user.gid_of,
        }
        claims = {"iat": now, "exp": now + int(seconds), "uid": user.uid, "gid": user.gid, "id": identity}
        return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(self.jwt_key_file.read_bytes()))

    async def sbatch(
        self,
        user: SlurmUser,
        script: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        submit_directory: str | None = None,
    ) -> str:
        """Run sbatch as on a login node, and return the job's id. Raises CommandFailed.

        `submit_directory` is the folder; None: the shared folder.
        """
        token = self.token_of(user)
        ids = [f"--reuid={user.uid}", f"--regid={user.gid}"]
        ids.append(f"--groups={','.join(map(str, user.groups))}" if user.groups else "--clear-groups")
        sbatch = await self.run(
            *("env", f"--chdir={submit_directory or self.shared_path}", "setpriv", *ids, "sbatch", "--parsable", *args),
            env={**(env or {}), "SLURM_JWT": token},
            input=script,
        )
        if sbatch.returncode != 0:
            raise CommandFailed(f"sbatch: {sbatch.stderr.strip()}")
        return sbatch.stdout.strip().partition(";")[0]

    async def admits(self) -> bool:
        """Whether Slurm has any node or placeholder for which it can accept jobs."""
        return bool((await _checked(self, "sinfo", "--future", "--noheader", "--Node", "--format=%N")).strip())

    async def admit(self, name: str, *, cpus: int, memory_mib: int, features: Sequence[str]) -> None:
        """Create a placeholder, so that Slurm accepts jobs for such a worker before there is one.

        The proxy manages its own placeholders. Raises CommandFailed.
        """
        resources = (f"cpus={cpus}", f"realmemory={memory_mib}", f"features={','.join(features)}")
        await _checked(self, "scontrol", "create", f"nodename={name}", *resources, "state=FUTURE")
        await _checked(self, "scontrol", "update", f"nodename={name}", f"extra={OPEN}")


class OwnedSlurmCluster(SlurmCluster):
    """A cluster that this process started, whose daemons it can kill and restart."""

    _daemons: dict[DaemonName, RunningDaemon] = PrivateAttr(default_factory=dict)

    def __getitem__(self, name: DaemonName) -> RunningDaemon:
        """One of its daemons. Raises KeyError for a daemon that it does not have."""
        return self._daemons[name]


def attach(directory: Path) -> SlurmCluster:
    """Return the cluster that another process runs in a folder. Raises SlurmNotRunning."""
    description = SlurmDirectory(directory.resolve()).description
    if description.exists():
        cluster = SlurmCluster.model_validate_json(description.read_bytes())
        # A killed process has no command line, even while it is still in the process table.
        if command_line(cluster.init_pid)[:1] == [INIT]:
            return cluster
    raise SlurmNotRunning(f"no Slurm is running in {directory}: start one there first")


@asynccontextmanager
async def slurm_cluster(
    directory: Path,
    options: ClusterOptions = DEFAULT_OPTIONS,
    *,
    provider: Provider = first_available,
    progress: Progress = silent,
) -> AsyncIterator[OwnedSlurmCluster]:
    """Run a control plane without nodes until the block ends; its state stays in `directory` for the next one there.

    slurmctld, slurmdbd and slurmrestd listen on the addresses in `options`. Slurm accepts a job once there
    is a node or a placeholder (`admit`) that fits it. Needs root. Raises LabProblem, TimeoutError.
    """
    open_namespaces = await provider(progress)
    progress("starting Slurm")
    folders = SlurmDirectory(directory.resolve())
    plugin_folders = f"{plugins.PLUGIN_FOLDERS}:{SCRIPTS}"
    config = SlurmConfig(options, free_port(), free_port(), plugin_folders, plugins.can_build())
    folders.prepare(config)
    async with AsyncExitStack() as running:
        inside = await running.enter_async_context(open_namespaces(folders))
        slurmrestd_port = free_port()
        cluster = OwnedSlurmCluster(
            name=options.name,
            slurmrestd_url=f"http://{options.rest_address}:{slurmrestd_port}",
            slurmctld_address=options.address,
            slurmctld_port=config.slurmctld_port,
            slurm_key_file=folders.etc / SLURM_KEY,
            jwt_key_file=folders.etc / JWT_KEY,
            operator=OPERATOR,
            shared_dir=folders.shared,
            spool_dir=folders.spool,
            log_dir=folders.logs,
            launcher=inside.launcher,
            init_pid=inside.init_pid,
            resume_log=folders.logs / RESUME_LOG if options.power_saving else None,
        )
        if config.plugins:
            await plugins.build(await _checked(cluster, "slurmctld", "-V"), folders.scripts, folders.logs / "cc.log")
        for daemon in _daemons(cluster, config, folders, slurmrestd_port):
            started = await launch(daemon, cluster.launcher, folders.logs)
            running.push_async_callback(started.stop if daemon.name == "slurmctld" else started.kill)
            cluster._daemons[daemon.name] = started
        if not options.power_saving:
            await _create_operator(cluster)
        folders.description.write_text(cluster.model_dump_json(indent=2))
        running.callback(folders.description.unlink)
        yield cluster


def _daemons(cluster: SlurmCluster, config: SlurmConfig, folders: SlurmDirectory, slurmrestd_port: int) -> list[Daemon]:
    """The daemons in start order: each needs the ones before it."""

    async def mariadbd() -> bool:
        return (await cluster.run("mariadb-admin", "ping")).returncode == 0

    async def slurmdbd() -> bool:
        return listening(config.slurmdbd_port)

    async def slurmctld() -> bool:
        return (await cluster.run("scontrol", "ping")).returncode == 0

    async def reconfigure() -> None:
        """Reconfigure slurmctld, so that it survives SIGKILL and starts jobs soon.

        Without this it first saves its state minutes later, and before that it does not start again after SIGKILL. Its
        main scheduler runs at each full second, its backfill thread each second counted from its start. So it is
        started half-way between two full seconds: the two then alternate, and a job waits for at most half a second.
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
        *([] if config.options.power_saving else accounting),
        Daemon("slurmctld", ["slurmctld", "-D"], "slurm", slurmctld, prepare=folders.repair_state, settle=reconfigure),
        Daemon(
            "slurmrestd",
            ["slurmrestd", "-a", "rest_auth/jwt", f"{config.options.rest_address}:{slurmrestd_port}"],
            _SLURMRESTD_UID,
            slurmrestd,
            # Each request has its own token. slurmrestd must not unshare namespaces: that may not be allowed here, and
            # the cluster's namespaces are private already.
            ["SLURM_JWT=daemon", "SLURMRESTD_SECURITY=disable_unshare_files,disable_unshare_sysv"],
        ),
    ]


async def _create_operator(cluster: SlurmCluster) -> None:
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
