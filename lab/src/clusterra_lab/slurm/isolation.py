"""How Slurm keeps the jobs of one worker apart: the lines of slurm.conf, and the files beside it."""

from typing import Literal

Isolation = Literal["polled", "cgroups"]
"""`polled`: slurmstepd looks every second and kills what has too much memory, which needs no privilege.
`cgroups`: the kernel holds each job to its memory, CPUs and devices. That needs slurmd to run in `worker-cgroup`, as
root with CAP_SYS_ADMIN.

In both, `worker-limits` bounds the scratch. namespace/tmpfs of 26.05 is not used: in some runs it could not mount the
private folders of a job ("ns base mount failed"), which ended the job and held it."""

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


def settings(isolation: Isolation) -> str:
    """The lines of slurm.conf(5)."""
    return (_CGROUPS if isolation == "cgroups" else _POLLED) + _SCRATCH


def files(isolation: Isolation) -> dict[str, str]:
    """Name -> content of the files beside slurm.conf: cgroup.conf(5)."""
    if isolation == "polled":
        return {"cgroup.conf": "CgroupPlugin=disabled\n"}
    return {"cgroup.conf": _CGROUP_CONF}
