"""How Slurm keeps the jobs of one worker apart: the lines of slurm.conf, and the files beside it."""

from typing import Literal

Isolation = Literal["polled", "cgroups"]
"""`polled`: slurmstepd and worker-limits look every few seconds and kill what has too much, which needs no privilege.
`cgroups`: the kernel holds each job to its memory, CPUs and devices, and each job has its own /tmp, /var/tmp and
/dev/shm. That needs slurmd to run in `worker-cgroup`, as root with CAP_SYS_ADMIN."""

SCRATCH = "/run/clusterra/scratch"
"""Folder with the private /tmp of each job, with `cgroups`. Its file system bounds what all of them may hold."""

_POLLED = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
# Once a second, slurmstepd kills a job that has more memory than it asked for.
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
HealthCheckProgram=/usr/lib/clusterra/worker-limits
HealthCheckInterval=20
HealthCheckTimeout=19
HealthCheckNodeState=ALLOC,MIXED
"""

_CGROUPS = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
# The step `extern` of each job holds its private folders.
PrologFlags=Contain
NamespaceType=namespace/tmpfs
"""

_CGROUP_CONF = """\
CgroupPlugin=autodetect
# slurmd runs in a cgroup of its own (worker-cgroup), in which there is no systemd.
IgnoreSystemd=yes
EnableControllers=yes
ConstrainCores=yes
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
ConstrainDevices=yes
"""

_JOB_CONTAINER_CONF = f"""\
AutoBasePath=true
BasePath={SCRATCH}
Dirs=/tmp,/var/tmp
Shared=true
"""


def settings(isolation: Isolation) -> str:
    """The lines of slurm.conf(5)."""
    return _CGROUPS if isolation == "cgroups" else _POLLED


def files(isolation: Isolation) -> dict[str, str]:
    """Name -> content of the files beside slurm.conf: cgroup.conf(5), job_container.conf(5)."""
    if isolation == "polled":
        return {"cgroup.conf": "CgroupPlugin=disabled\n"}
    return {"cgroup.conf": _CGROUP_CONF, "job_container.conf": _JOB_CONTAINER_CONF}
