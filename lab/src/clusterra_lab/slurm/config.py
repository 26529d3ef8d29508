"""The configuration files of a Slurm control plane. Paths are those inside the root file system that it runs in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_lab.slurm import isolation, oci
from clusterra_lab.slurm.isolation import Isolation

HOST = "slurm"
"""The host name inside the cluster's namespaces."""

ETC = "/etc/slurm"
JWT_KEY = "jwt_hs256.key"
SLURM_KEY = "slurm.key"
STATE = "/var/spool/slurmctld"
SPOOL = "/var/spool/slurmd"
LOG = "/var/log/slurm"
RESUME_LOG = "resume.log"

GPU_MODELS = ("l4", "a10g", "a100", "h100")
MOST_GPUS = 8
GPU = "gpu"
"""Prefix of the files beside slurm.conf that stand for GPU devices, each with a number. slurmd counts only GPUs with a
device. Which file that is does not matter: there are no cgroups, and nothing opens it."""

JOB_SUBMIT = "job_submit.lua"
"""The script that JobSubmitPlugins=lua runs, beside slurm.conf."""

SCRIPTS = "/usr/lib/clusterra"
"""The folder of the scripts, in the images of images/slurm and in the lab's clusters."""

PLUGSTACK_CONF = f"optional {SCRIPTS}/spank_clusterra_names.so {SCRIPTS}/note-names\n"
"""The content of plugstack.conf(5): the worker learns the names of its users. A login node has no such file."""

SHARED_PATH = "/mnt/efs"
"""The folder that all nodes share."""
HOMES = "home"
"""Folder in the shared folder with the home of each user who has run a job, by name."""

MY_CNF = """\
[mariadbd]
user = mysql
datadir = /var/lib/mysql
socket = /run/mysqld/mysqld.sock
pid-file = /run/mysqld/mariadbd.pid
tmpdir = /tmp
skip-networking
skip-name-resolve
performance_schema = OFF
innodb_buffer_pool_size = 32M
innodb_log_file_size = 8M
innodb_undo_tablespaces = 0
# A cluster may end by SIGKILL: what is committed must be with the kernel, which is enough.
innodb_flush_log_at_trx_commit = 2
# slurmdbd needs these two with MariaDB 11.8.
innodb_snapshot_isolation = OFF
innodb_lock_wait_timeout = 900

[client]
socket = /run/mysqld/mysqld.sock
"""
"""MariaDB's configuration: little memory, and only a Unix socket."""

# Without `_only`, a token with an incomplete identity would fall back to an account of the root file system.
_AUTH = f"""\
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={ETC}/{JWT_KEY},use_jwt_client_ids_only"""

_SCHEDULER = (
    "bf_interval=1,sched_interval=1,sched_min_interval=100000,batch_sched_delay=0,max_sched_time=1,requeue_delay=1,"
    "nohold_on_prolog_fail,extra_constraints"
)

_WORD = re.compile(r"[A-Za-z0-9_.:,-]+")


class InvalidConfig(ValueError):
    """A value is not a single word in Slurm's configuration syntax."""


@dataclass(frozen=True)
class PowerSaving:
    """Slurm's own scaling from zero: `nodes` cloud nodes, and a ResumeProgram that only records its calls.

    The settings are the fastest that Slurm has; with the default `power_save_interval` one call in five waits 10 s.
    """

    nodes: int = 16
    cpus: int = 4
    memory_mib: int = 8192
    features: Sequence[str] = ()


@dataclass(frozen=True)
class ClusterOptions:
    """What the creator of a cluster chooses. Raises InvalidConfig."""

    name: str = "lab"
    power_saving: PowerSaving | None = None
    """Slurm's own scaling from zero, which excludes slurmdbd and accounting."""
    address: str = "127.0.0.1"
    """The address where slurmctld and slurmdbd listen, and where workers reach slurmctld."""
    rest_address: str = "127.0.0.1"
    """The address where slurmrestd listens."""
    one_host: bool = True
    """Whether all slurmd share one machine, and so its spool folder."""
    max_nodes: int | None = None
    """The most nodes that a job may request: the cluster's limit of workers."""
    settings: Sequence[str] = ()
    """Additional lines of slurm.conf, such as `Licenses=matlab:2`."""
    isolation: Isolation = "polled"
    """How the jobs of one worker are kept apart."""
    private_tmp: bool = False
    """Whether each job has its own /tmp and /var/tmp. Every slurmd then needs CAP_SYS_ADMIN and `worker-namespace`."""
    containers: bool = False
    """Whether workers run jobs with `--container`. Their users must be allowed to make user namespaces."""
    own_hosts: bool = False
    """Whether each daemon has a host of its own, with the name of the daemon, as containers of a Compose project have.
    Then each daemon listens on all addresses of its host and logs to its standard error, and the database is on the
    host `mariadb`. `address` has no meaning then."""

    def __post_init__(self) -> None:
        words = [self.name, self.address, *(self.power_saving.features if self.power_saving else ())]
        for word in words:
            if not _WORD.fullmatch(word):
                raise InvalidConfig(f"{word!r} is not a valid name in slurm.conf: use letters, digits and _ . : -")


@dataclass(frozen=True)
class SlurmConfig:
    """One control plane: slurmctld, and slurmdbd unless it uses power saving."""

    options: ClusterOptions
    slurmctld_port: int
    slurmdbd_port: int
    plugin_folders: str | None = None
    """PluginDir, when the plugin `site_factor/clusterra` is not beside Slurm's own plugins, as it is in the images."""
    plugins: bool = True
    """Whether Slurm has the compiled plugins of images/slurm."""

    def files(self) -> dict[str, str]:
        """Name -> content of each file in /etc/slurm, without the keys."""
        files = {
            "slurm.conf": slurm_conf(self),
            **isolation.files(self.options.isolation, private_tmp=self.options.private_tmp),
            "gres.conf": gres_conf(self.options),
            **({"oci.conf": oci.conf(SCRIPTS)} if self.options.containers else {}),
        }
        if self.plugins and not self.options.power_saving:
            files["plugstack.conf"] = PLUGSTACK_CONF
        if self.options.power_saving:
            return files | {
                "resume": f'#!/bin/sh\necho "$(date +%s.%N) $1" >> {LOG}/{RESUME_LOG}\n',
                "suspend": "#!/bin/sh\n",
            }
        return files | {"slurmdbd.conf": slurmdbd_conf(self)}


def slurm_conf(config: SlurmConfig) -> str:
    """The content of slurm.conf(5).

    Slurm's main scheduler and its backfill thread each run once a second; the parameters let both start jobs every
    time. The plugin `site_factor/clusterra` also starts the main scheduler at each submit, at most ten times a second.
    Several slurmd share one address, each with its own port and spool folder. Slurm rejects a job at submit when the
    partition's nodes could never run it. Placeholders count as nodes; before there are any, Slurm rejects all jobs.
    """
    options = config.options
    return f"""\
ClusterName={options.name}
SlurmctldHost={"slurmctld" if options.own_hosts else f"{HOST}({options.address})"}
SlurmctldPort={config.slurmctld_port}
SlurmUser=slurm
{"" if options.own_hosts else "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"}
TreeWidth=65533
SlurmctldParameters={"power_save_interval=0" if options.power_saving else "enable_configless"}

{_AUTH},disable_token_creation
CredType=cred/slurm
DisableRootJobs=YES
PrivateData=jobs,usage,users,accounts

StateSaveLocation={STATE}
SlurmdSpoolDir={_spool(options)}
{"" if options.own_hosts else f"SlurmdLogFile={LOG}/%n.log"}
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
Prolog={SCRIPTS}/prolog
Epilog={SCRIPTS}/epilog
TaskProlog={SCRIPTS}/task-prolog
MailProg=/bin/true

{isolation.settings(options.isolation, private_tmp=options.private_tmp)}MpiDefault=none
PropagateResourceLimits=NONE

SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1024
SchedulerParameters={_SCHEDULER}
{_plugins(config)}
EnforcePartLimits=ANY
MinJobAge=300
MaxJobCount=20000
MaxArraySize=10001
KillWait=5

GresTypes=gpu
MaxNodeCount=2048
SlurmdParameters=config_overrides
SlurmdTimeout=30
ReturnToService=2
{_accounting(config)}
{_cloud(options.power_saving) if options.power_saving else ""}
# slurmrestd tells the defaults of a partition, so that an estimate knows them, and none of the cluster.
PartitionName=main Default=YES Nodes=ALL MaxNodes={options.max_nodes or "UNLIMITED"} DefMemPerCPU=1024 State=UP
{_lines(options.settings)}"""


def gres_conf(options: ClusterOptions) -> str:
    """The content of gres.conf(5): the files that stand for GPU devices, for workers that are processes.

    From the line of a model, slurmd takes as many devices as the worker has GPUs of it. In a pod, slurmd detects the
    devices.
    """
    if not options.one_host:
        return "AutoDetect=nvidia\n"
    devices = f"File={ETC}/{GPU}[0-{MOST_GPUS - 1}]"
    return "".join(["AutoDetect=off\n", *(f"Name=gpu Type={model} {devices}\n" for model in GPU_MODELS)])


def slurmdbd_conf(config: SlurmConfig) -> str:
    """The content of slurmdbd.conf(5), without a password of the database."""
    if config.options.own_hosts:
        host, listen, database = "slurmdbd", "", "mariadb"
    else:
        address = f"DbdAddr={config.options.address}"
        host, listen, database = HOST, f"{address}\nCommunicationParameters=NoInAddrAny", "localhost"
    return f"""\
DbdHost={host}
DbdPort={config.slurmdbd_port}
{listen}
SlurmUser=slurm
PidFile=/run/slurmdbd/slurmdbd.pid

{_AUTH}
PrivateData=accounts,events,jobs,usage,users

StorageType=accounting_storage/mysql
StorageHost={database}
StorageUser=slurm
StorageLoc=slurm
"""


def _spool(options: ClusterOptions) -> str:
    """The value of SlurmdSpoolDir.

    slurmstepd creates a socket there, whose name has the node's name in it. A socket path has at most 107 characters:
    with a pod's long name in it twice, no job would start. In a Compose project each slurmd has its own folder.
    """
    return f"{SPOOL}/%n" if options.one_host and not options.own_hosts else SPOOL


def _plugins(config: SlurmConfig) -> str:
    """The plugins of images/slurm, except with power saving: it stands for Slurm as it is. Cloud nodes have no Extra
    either, so they could run no job with a class."""
    if config.options.power_saving:
        return ""
    lines = ["JobSubmitPlugins=lua"]
    if config.plugins:
        lines += [f"PluginDir={config.plugin_folders}"] if config.plugin_folders else []
        lines += ["PrioritySiteFactorPlugin=site_factor/clusterra"]
    return "\n".join(lines)


def _accounting(config: SlurmConfig) -> str:
    if config.options.power_saving:
        return ""
    return f"""
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={"slurmdbd" if config.options.own_hosts else config.options.address}
AccountingStoragePort={config.slurmdbd_port}
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment,job_script
"""


def _lines(settings: Sequence[str]) -> str:
    return "".join(f"{setting}\n" for setting in settings)


def _cloud(saving: PowerSaving) -> str:
    features = f" Feature={','.join(saving.features)}" if saving.features else ""
    return f"""\
ResumeProgram={ETC}/resume
SuspendProgram={ETC}/suspend
ResumeTimeout=600
ResumeRate=0
SuspendTime=600
NodeName=cloud-[1-{saving.nodes}] CPUs={saving.cpus} RealMemory={saving.memory_mib}{features} State=CLOUD
"""
