"""Which pending jobs could start if there were nodes, and what each needs of them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import PendingJobs

from clusterra_scaler.planner.requests import gres
from clusterra_scaler.planner.requests.constraints import Layout, UnreadableConstraint, layouts
from clusterra_scaler.planner.requests.gres import Gres, UnreadableGres
from clusterra_scaler.planner.requests.pending_reasons import cause_of

DEFAULT_MEMORY_MIB_PER_CPU = 2048
"""For a job that names no memory: what a worker of the cheapest family has."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one node must have for a job or its share of it. Memory in MiB."""

    cpus: int
    memory_mib: int
    constraint: str = ""
    """Of the features of this node: no counts."""
    gres: tuple[Gres, ...] = ()
    exclusive: bool = False
    """The node must be empty and is the job's alone."""
    only_with_uid: int | None = None
    """Nobody else may have jobs there."""
    node: str = ""
    """It must be this very node."""
    not_nodes: frozenset[str] = frozenset()
    unreadable: str = ""
    """Why nobody can tell what it needs, in words; empty where all is understood."""


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes of one job that need the same."""

    need: Need
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` jobs, each of which needs all the nodes of its parts at the same time, no two the same."""

    job_ids: tuple[JobId, ...]
    count: int
    parts: tuple[Part, ...]
    uid: int
    limit_seconds: float | None
    """How long it may run, where it has a limit."""
    submitted_at: datetime
    """When the first of them was submitted."""
    extra: str
    """What it asks of the Extra of nodes."""

    @property
    def nodes(self) -> int:
        """How many nodes one job needs."""
        return sum(part.nodes for part in self.parts)


type Fits = Callable[[Need], bool]
"""Whether a new worker could have what is needed of a node."""


def startable(pending: Iterable[PendingJobs], partition: str, now: datetime, fits: Fits) -> list[Demand]:
    """The demand of the jobs of a partition that wait for nodes and for nothing else.

    The components of a heterogeneous job are one demand, and none while one of them waits for something else.
    """
    demands: list[Demand] = []
    components: defaultdict[tuple[JobId, int], list[PendingJobs]] = defaultdict(list)
    for group in pending:
        if group.het_job_id is not None:
            components[group.het_job_id, group.uid].append(group)
        elif _could_start(group, partition, now):
            demands.append(demand_of([group], fits))
    for groups in components.values():
        if all(_could_start(group, partition, now) for group in groups):
            demands.append(demand_of(sorted(groups, key=lambda group: group.het_offset), fits))
    return demands


def waits_for_nodes(group: PendingJobs, now: datetime) -> bool:
    """Whether Slurm would start these jobs if there were nodes.

    A reservation has its nodes already. A job that Slurm holds for want of a fitting node is released by one that
    registers. Of a job that may run in several partitions Slurm tells what the one says that it tried last: where one
    does not allow the job, that and the want of nodes in another take turns each second.
    """
    if group.dependent or group.reservation or (group.begins_at is not None and group.begins_at > now):
        return False
    cause = cause_of(group.reason)
    if cause == "fitting node":
        return True
    return not group.held and (cause == "nodes" or (cause == "partition" and "," in group.partition))


def unknown_reasons(pending: Iterable[PendingJobs]) -> tuple[str, ...]:
    """Reasons of Slurm that nothing is known of: their jobs are taken to wait for something else than nodes."""
    return tuple(sorted({group.reason for group in pending if cause_of(group.reason) is None}))


def demand_of(groups: Sequence[PendingJobs], fits: Fits) -> Demand:
    """What equal jobs ask for, or the components of one heterogeneous job.

    A job that may run on few nodes or many is asked for on as few as new workers could be; where none could, on the
    fewest it allows.
    """
    return Demand(
        job_ids=tuple(job_id for group in groups for job_id in group.job_ids),
        count=min(group.count for group in groups),
        parts=tuple(part for group in groups for part in _parts(group, fits)),
        uid=groups[0].uid,
        limit_seconds=groups[0].time_limit_seconds,
        submitted_at=min(group.first_submitted_at for group in groups),
        extra=groups[0].extra,
    )


def _could_start(group: PendingJobs, partition: str, now: datetime) -> bool:
    return group.count > 0 and partition in group.partition.split(",") and waits_for_nodes(group, now)


def _parts(group: PendingJobs, fits: Fits) -> tuple[Part, ...]:
    least = group.nodes
    try:
        asked = gres.read(group.gres)
        fewest = _alternatives(group, asked, least)
    except (UnreadableConstraint, UnreadableGres) as error:
        return (Part(Need(group.cpus, 0, unreadable=str(error)), least),)

    found = _fitting(fewest, fits)
    if found is not None:
        return found
    most = _most(group, asked)

    def on_more(nodes: int) -> tuple[Part, ...] | None:
        return _fitting(_alternatives(group, asked, nodes), fits)

    if most > least and on_more(most) is not None:
        # More nodes need less of each: the fewest that fit are found by halving.
        found = on_more(bisect_left(range(most), True, lo=least, key=lambda nodes: on_more(nodes) is not None))
    return found or fewest[0]


def _most(group: PendingJobs, asked: Iterable[gres.Asked]) -> int:
    """Each node runs a task, or has one of the GPUs that the job asked for as a whole."""
    of_the_job = (each.gres.count for each in asked if each.per == "job")
    return max(group.nodes, group.max_nodes or max(group.tasks or 1, *of_the_job, 1))


def _fitting(alternatives: Iterable[tuple[Part, ...]], fits: Fits) -> tuple[Part, ...] | None:
    """The first for which there could be workers."""
    return next((parts for parts in alternatives if all(part.need.node or fits(part.need) for part in parts)), None)


def _alternatives(group: PendingJobs, asked: tuple[gres.Asked, ...], nodes: int) -> list[tuple[Part, ...]]:
    """What the nodes need where the job runs on so many, in the order of preference."""
    return [tuple(_laid_out(group, asked, layout)) for layout in layouts(group.features, nodes)]


def _laid_out(group: PendingJobs, asked: tuple[gres.Asked, ...], layout: Layout) -> Iterator[Part]:
    nodes = sum(count for _, count in layout)
    required = list(group.required_nodes)
    for constraint, count in layout:
        named = [required.pop(0) for _ in range(min(count, len(required)))]
        yield from (Part(_need(group, asked, nodes, constraint, node)) for node in named)
        if count > len(named):
            yield Part(_need(group, asked, nodes, constraint), count - len(named))


def _need(group: PendingJobs, asked: tuple[gres.Asked, ...], nodes: int, constraint: str, node: str = "") -> Need:
    """The share of the busiest of `nodes` nodes: tasks and GPUs are dealt out evenly, and no task is split."""
    in_one_piece = -(-group.cpus // group.cpus_per_task)
    cpus = max(-(-in_one_piece // nodes) * group.cpus_per_task, group.cpus_per_node)
    resources = gres.on_node(asked, -(-(group.tasks or 1) // nodes), nodes)
    return Need(
        cpus=cpus,
        memory_mib=_memory_mib(group, cpus, gres.gpus(resources)),
        constraint=constraint,
        gres=resources,
        exclusive=group.exclusive or group.memory_per_node_mib == 0,
        only_with_uid=group.uid if group.exclusive_user else None,
        node=node,
        not_nodes=frozenset(group.excluded_nodes),
    )


def _memory_mib(group: PendingJobs, cpus: int, gpus: int) -> int:
    if group.memory_per_node_mib:
        return group.memory_per_node_mib
    if group.memory_per_gpu_mib:
        return group.memory_per_gpu_mib * gpus
    if group.memory_per_cpu_mib:
        return group.memory_per_cpu_mib * cpus
    return DEFAULT_MEMORY_MIB_PER_CPU * cpus
