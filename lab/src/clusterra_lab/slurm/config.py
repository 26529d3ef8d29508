"""The configuration of a Slurm control plane, as text. Paths are those of the root file system it runs in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

HOST = "slurm"
"""The name of the machine inside the cluster's namespaces."""

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
"""Beside slurm.conf, with a number: stands for the device of a GPU. slurmd counts no GPU without a device of its own;
which that is matters to nobody, for there are no cgroups and nothing opens it."""

JOB_SUBMIT = "job_submit.lua"
"""What JobSubmitPlugins=lua runs, beside slurm.conf."""

SCRIPTS = "/usr/lib/clusterra"
"""Where the images of images/slurm have their scripts, and the lab's clusters, too."""

SHARED_PATH = "/mnt/efs"
"""The folder that all nodes share."""
HOMES = "home"
"""In the shared folder: the home of each user who has run a job, by name."""

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
"""MariaDB: small, on a Unix socket only."""

# Without `_only`, a token whose identity is incomplete would fall back to an account of the root file system.
_AUTH = f"""\
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={ETC}/{JWT_KEY},use_jwt_client_ids_only"""

_SCHEDULER = "bf_interval=1,sched_interval=1,batch_sched_delay=0,max_sched_time=1,requeue_delay=1,extra_constraints"

_WORD = re.compile(r"[A-Za-z0-9_.:,-]+")


class InvalidConfig(ValueError):
    """A value would not be one value in Slurm's configuration syntax."""


@dataclass(frozen=True)
class PowerSaving:
    """Slurm's own scaling from zero: `nodes` cloud nodes, and a ResumeProgram that only notes when it is called.

    It is as fast as Slurm can be told to be; with the default `power_save_interval` one call in five waits 10 s.
    """

    nodes: int = 16
    cpus: int = 4
    memory_mib: int = 8192
    features: Sequence[str] = ()


@dataclass(frozen=True)
class SlurmConfig:
    """One control plane: slurmctld, and slurmdbd unless it has `power_saving`. Raises InvalidConfig."""

    name: str
    slurmctld_port: int
    slurmdbd_port: int
    power_saving: PowerSaving | None = None
    address: str = "127.0.0.1"
    """Where slurmctld and slurmdbd listen; workers call slurmctld there."""
    one_host: bool = True
    """Whether all slurmd share one machine, and so its spool folder."""
    max_nodes: int | None = None
    """What one job may ask for at most: as many as there may be workers."""
    settings: Sequence[str] = ()
    """More lines of slurm.conf, such as `Licenses=matlab:2`."""

    def __post_init__(self) -> None:
        words = [self.name, self.address, *(self.power_saving.features if self.power_saving else ())]
        for word in words:
            if not _WORD.fullmatch(word):
                raise InvalidConfig(f"{word!r} cannot be a name in slurm.conf: use letters, digits and _ . : -")

    def files(self) -> dict[str, str]:
        """The content of each file of /etc/slurm by its name, without the keys."""
        files = {
            "slurm.conf": slurm_conf(self),
            "cgroup.conf": "CgroupPlugin=disabled\n",
            "gres.conf": gres_conf(self),
        }
        if self.power_saving:
            return files | {
                "resume": f'#!/bin/sh\necho "$(date +%s.%N) $1" >> {LOG}/{RESUME_LOG}\n',
                "suspend": "#!/bin/sh\n",
            }
        return files | {"slurmdbd.conf": slurmdbd_conf(self)}


def slurm_conf(config: SlurmConfig) -> str:
    """slurm.conf(5).

    Slurm looks for jobs to start once a second, and again in its backfill thread; the parameters let both do so at
    each of these chances. Several slurmd share one address, each with a port and a spool folder of its own.
    What the partition and its nodes could never have is refused at submit. Placeholders count as nodes; until there are
    any that is every job.
    """
    return f"""\
ClusterName={config.name}
SlurmctldHost={HOST}({config.address})
SlurmctldPort={config.slurmctld_port}
SlurmUser=slurm
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
TreeWidth=65533
SlurmctldParameters={"power_save_interval=0" if config.power_saving else "enable_configless"}

{_AUTH}
CredType=cred/slurm
DisableRootJobs=YES
PrivateData=jobs,usage,users,accounts

StateSaveLocation={STATE}
SlurmdSpoolDir={_spool(config)}
SlurmdLogFile={LOG}/%n.log
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
Prolog={SCRIPTS}/prolog
Epilog={SCRIPTS}/epilog
TaskProlog={SCRIPTS}/task-prolog
MailProg=/bin/true

ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
MpiDefault=none
PropagateResourceLimits=NONE

SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1024
SchedulerParameters={_SCHEDULER}
{_job_submit(config)}
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
{_cloud(config.power_saving) if config.power_saving else ""}
PartitionName=main Default=YES Nodes=ALL MaxNodes={config.max_nodes or "UNLIMITED"} State=UP
{_lines(config.settings)}"""


def gres_conf(config: SlurmConfig) -> str:
    """gres.conf(5): for any worker that is a process of this machine, the devices of the GPUs that it says it has.

    Of each line slurmd takes as many as the worker has of that model. In a pod slurmd finds the devices by itself.
    """
    if not config.one_host:
        return "AutoDetect=nvidia\n"
    devices = f"File={ETC}/{GPU}[0-{MOST_GPUS - 1}]"
    return "".join(["AutoDetect=off\n", *(f"Name=gpu Type={model} {devices}\n" for model in GPU_MODELS)])


def slurmdbd_conf(config: SlurmConfig) -> str:
    """slurmdbd.conf(5)."""
    return f"""\
DbdHost={HOST}
DbdAddr={config.address}
DbdPort={config.slurmdbd_port}
SlurmUser=slurm
PidFile=/run/slurmdbd/slurmdbd.pid
CommunicationParameters=NoInAddrAny

{_AUTH}

StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm
"""


def _spool(config: SlurmConfig) -> str:
    """slurmstepd has a socket in it, named by node and job, and the path of a socket has 107 characters at most.

    With the long name of a pod in it twice, no job would start.
    """
    return f"{SPOOL}/%n" if config.one_host else SPOOL


def _job_submit(config: SlurmConfig) -> str:
    """Without Extra, which no cloud node has, no node would take a job that has a class."""
    return "" if config.power_saving else "JobSubmitPlugins=lua"


def _accounting(config: SlurmConfig) -> str:
    if config.power_saving:
        return ""
    return f"""
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={config.address}
AccountingStoragePort={config.slurmdbd_port}
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
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
