"""The Slurm on which the job cases are recorded: its placeholders, limits and accounts."""

from typing import NamedTuple

from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Need


class _Kind(NamedTuple):
    """A kind of workers: memory in MiB, GPUs as in slurm.conf."""

    name: str
    cpus: int
    memory_mib: int
    features: tuple[str, ...]
    gres: str = ""

    @property
    def placeholders(self) -> str:
        """The line of slurm.conf for four placeholders of this kind."""
        has = f"CPUs={self.cpus} RealMemory={self.memory_mib} Feature={','.join(self.features)}"
        return f"NodeName=placeholder-{self.name}-[1-4] {has}{self.gres and f' Gres={self.gres}'} State=FUTURE"


_KINDS = (
    _Kind("general", 16, 65536, ("general", "general-large")),
    _Kind("compute", 8, 16384, ("compute", "compute-medium")),
    _Kind("gpu", 32, 262144, ("gpu", "h100"), "gpu:h100:8"),
    _Kind("plain", 8, 32768, ("gpu", "plain"), "gpu:4"),
)

PLACEHOLDERS = ",".join(f"placeholder-{kind.name}-[1-4]" for kind in _KINDS)

LIMITS = (
    "Licenses=matlab:2",
    "PartitionName=debug Nodes=ALL State=UP",
    "PartitionName=closed Nodes=ALL State=DOWN",
    "PartitionName=bounded Nodes=ALL MaxNodes=2 MaxTime=60 State=UP",
)
"""Lines of slurm.conf with licences and partitions, which do not depend on the nodes."""

SETTINGS = (*(kind.placeholders for kind in _KINDS), "AccountingStorageEnforce=associations,limits,qos", *LIMITS)


def member(name: str) -> str:
    """The sacctmgr command for a user who may use all accounts and QOS."""
    return f"add user name={name} account=lab,idle defaultaccount=lab qos=normal,two,none defaultqos=normal"


ACCOUNTING = (
    "add account name=lab",
    "add account name=idle maxjobs=0",
    "add qos name=two",
    "modify qos two set GrpTRES=cpu=2",
    "add qos name=none",
    "modify qos none set MaxJobsPerUser=0",
    member("alice"),
)


def fits(need: Need) -> bool:
    """Whether a node like one of the placeholders satisfies the need."""
    allows = parse(need.constraint)
    return any(
        need.cpus <= kind.cpus
        and need.memory_mib <= kind.memory_mib
        and allows(kind.features)
        and all(each.count <= _count(kind.gres, each.name) for each in need.gres)
        for kind in _KINDS
    )


def _count(gres: str, name: str) -> int:
    """Number of GPUs of a type in `gres`, or of any type if `name` has none."""
    kind, _, count = gres.rpartition(":")
    return int(count) if kind.split(":")[: len(name.split(":"))] == name.split(":") else 0
