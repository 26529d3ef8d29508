"""How Slurm keeps the jobs of one worker apart: the lines of slurm.conf, and the files beside it."""

from typing import Literal

Isolation = Literal["polled", "cgroups"]
"""`polled`: slurmstepd looks every second and kills what has too much memory, which needs no privilege.
`cgroups`: the kernel holds each job to its memory, CPUs and devices. That needs slurmd to run in `worker-cgroup`, as
root with CAP_SYS_ADMIN.

In both, `worker-limits` bounds the scratch."""

PRIVATE_TMP = "/run/clusterra/tmp"
"""Folder with the private folders of jobs. `worker-namespace` puts it in the worker's /tmp, so what bounds that bounds
them. It has another path, because a job's own /tmp hides the worker's."""

_POLLED = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
# Once a second, slurmstepd kills a job that has more memory than it asked for.
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
"""

_CGROUPS = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
"""

_SCRATCH = """\
HealthCheckProgram=/usr/lib/clusterra/worker-limits
HealthCheckInterval=20
HealthCheckTimeout=19
HealthCheckNodeState=ALLOC,MIXED
"""

# The step `extern` of a job (Contain) makes its private folders.
_PRIVATE_TMP = """\
PrologFlags=Contain
NamespaceType=namespace/tmpfs
"""

_JOB_CONTAINER_CONF = f"""\
AutoBasePath=true
BasePath={PRIVATE_TMP}
Dirs=/tmp,/var/tmp
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


def settings(isolation: Isolation, *, private_tmp: bool) -> str:
    """The lines of slurm.conf(5)."""
    return (_CGROUPS if isolation == "cgroups" else _POLLED) + (_PRIVATE_TMP if private_tmp else "") + _SCRATCH


def files(isolation: Isolation, *, private_tmp: bool) -> dict[str, str]:
    """Name -> content of the files beside slurm.conf: cgroup.conf(5), job_container.conf(5)."""
    cgroup = _CGROUP_CONF if isolation == "cgroups" else "CgroupPlugin=disabled\n"
    return {"cgroup.conf": cgroup} | ({"job_container.conf": _JOB_CONTAINER_CONF} if private_tmp else {})
