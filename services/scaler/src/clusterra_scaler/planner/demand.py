"""Which pending jobs could start if there were nodes, and what each needs of a node."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import PendingJobs

DEFAULT_MEMORY_MIB_PER_CPU = 2048
"""For a job that names no memory: what a worker of the cheapest family has."""

_CAPACITY_REASONS = (
    "none",
    "resources",
    "priority",
    "partitionconfig",
    "reqnodenotavail",
    "nodesrequiredforjobaredown",
    "nodedown",
)
"""Slurm's reasons that new nodes cure, without case and punctuation; `None` is a job not yet looked at.

Whatever is not listed, such as a dependency, a begin time, a licence, a throttle or a QOS limit, waits for something
else than nodes.
"""

_BAD_CONSTRAINTS = "badconstraints"
"""Slurm holds a job (priority 0) that no registered node fits; it is released when a node that fits registers."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one node must have for a job or its share of it. Memory in MiB."""

    cpus: int
    memory_mib: int
    constraint: str = ""
    gres: str = ""
    exclusive: bool = False
    """The node must be empty and is the job's alone."""


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` jobs, each of which needs `nodes` nodes at the same time."""

    job_ids: tuple[JobId, ...]
    count: int
    nodes: int
    need: Need


def startable(pending: Iterable[PendingJobs], partition: str) -> list[Demand]:
    """The demand of the jobs of a partition that wait for nodes and for nothing else."""
    return [demand_of(group) for group in pending if partition in group.partition.split(",") and waits_for_nodes(group)]


def waits_for_nodes(group: PendingJobs) -> bool:
    """Whether Slurm would start these jobs if there were nodes."""
    reason = re.sub(r"[^a-z]", "", group.reason.lower())
    if reason.startswith(_BAD_CONSTRAINTS):
        return True
    return not group.held and (not reason or reason.startswith(_CAPACITY_REASONS))


def demand_of(group: PendingJobs) -> Demand:
    """What a group of equal jobs asks for, node by node."""
    cpus = -(-group.cpus // group.nodes)
    return Demand(
        job_ids=group.job_ids,
        count=group.count,
        nodes=group.nodes,
        need=Need(
            cpus=cpus,
            memory_mib=_memory_mib(group, cpus),
            constraint=group.features,
            gres=group.gres,
            # --mem=0 asks for all the memory of a node.
            exclusive=group.exclusive or group.memory_per_node_mib == 0,
        ),
    )


def _memory_mib(group: PendingJobs, cpus: int) -> int:
    if group.memory_per_node_mib:
        return group.memory_per_node_mib
    if group.memory_per_cpu_mib:
        return group.memory_per_cpu_mib * cpus
    return DEFAULT_MEMORY_MIB_PER_CPU * cpus
