"""Finds the pending jobs that more nodes would start, and what each of them needs of its nodes."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import PendingJobs

from clusterra_scaler.planner.requests import gres
from clusterra_scaler.planner.requests.constraints import Layout, UnreadableConstraint, layouts
from clusterra_scaler.planner.requests.gres import Gres, UnreadableGres
from clusterra_scaler.planner.requests.pending_reasons import cause_of_reason

DEFAULT_MEMORY_MIB_PER_CPU = 2048
"""For jobs without a memory request: the memory per CPU of the cheapest family."""


@dataclass(frozen=True, slots=True)
class Need:
    """The requirements of a job, or of one node's share of a job, on that node. Memory in MiB."""

    cpus: int
    memory_mib: int
    constraint: str = ""
    """A constraint on the features of this node, without node counts."""
    gres: tuple[Gres, ...] = ()
    exclusive: bool = False
    """Whether the node must be empty and is allocated to this job alone."""
    exclusive_uid: int | None = None
    """If set, the node must hold no other user's jobs."""
    node: str = ""
    """The only node that will do; empty if any may."""
    excluded_nodes: frozenset[str] = frozenset()
    """Nodes that the job excludes by name."""
    unreadable: str = ""
    """Why the requirements cannot be parsed; empty if they can."""


@dataclass(frozen=True, slots=True)
class Part:
    """Those nodes of a job that have the same requirements."""

    need: Need
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` equal jobs, each of which needs all nodes of its parts at the same time, all of them different."""

    job_ids: tuple[JobId, ...]
    count: int
    parts: tuple[Part, ...]
    uid: int
    limit_seconds: float | None
    """The time limit; None for no limit."""
    submitted_at: datetime
    """When the first of the jobs was submitted."""
    extra: str
    """The jobs' expression on the Extra of nodes (`sbatch --extra`)."""

    @property
    def nodes(self) -> int:
        """The number of nodes that one job needs."""
        return sum(part.nodes for part in self.parts)


type Fits = Callable[[Need], bool]
"""Tells whether some new worker would meet the requirements on a node."""


def startable(pending: Iterable[PendingJobs], partition: str, now: datetime, fits: Fits) -> list[Demand]:
    """Return the demand of a partition's jobs that wait for nodes and for nothing else.

    The components of a heterogeneous job form one demand, unless one of them waits for something else: then the job
    has no demand.
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
    """Whether Slurm would start these jobs if it had more nodes.

    A reservation already has its nodes. A job that Slurm holds because no node fits (`BadConstraints`) is released
    when a fitting node registers. For a job that may run in several partitions Slurm reports the reason of the
    partition it tried last: if one partition does not allow the job, its reason alternates every second with the lack
    of nodes in another.
    """
    if group.dependent or group.reservation or (group.begins_at is not None and group.begins_at > now):
        return False
    cause = cause_of_reason(group.reason)
    if cause == "fitting node":
        return True
    return not group.held and (cause == "nodes" or (cause == "partition" and "," in group.partition))


def unknown_reasons(pending: Iterable[PendingJobs]) -> tuple[str, ...]:
    """Return the reasons that the scaler does not know. Jobs with such a reason are assumed not to wait for nodes."""
    return tuple(sorted({group.reason for group in pending if cause_of_reason(group.reason) is None}))


def demand_of(groups: Sequence[PendingJobs], fits: Fits) -> Demand:
    """Return the demand of one group of equal jobs, or of the components of one heterogeneous job.

    A job with a range of node counts counts with the fewest nodes that new workers could be; if none could, with the
    fewest that it allows.
    """
    parts = tuple(part for group in groups for part in _parts(group, fits))
    return Demand(
        job_ids=tuple(job_id for group in groups for job_id in group.job_ids),
        count=min(group.count for group in groups),
        parts=_interchangeable(parts, fits) if len(groups) > 1 else parts,
        uid=groups[0].uid,
        limit_seconds=groups[0].time_limit_seconds,
        submitted_at=min(group.first_submitted_at for group in groups),
        extra=groups[0].extra,
    )


def node_count(group: PendingJobs) -> int:
    """The number of nodes that each of these jobs asks for, with those that its constraint counts."""
    if "*" not in group.features:
        return group.nodes
    try:
        return max(sum(count for _, count in layout) for layout in layouts(group.features, group.nodes))
    except UnreadableConstraint:
        return group.nodes


def _could_start(group: PendingJobs, partition: str, now: datetime) -> bool:
    return group.count > 0 and partition in group.partition.split(",") and waits_for_nodes(group, now)


def _parts(group: PendingJobs, fits: Fits) -> tuple[Part, ...]:
    min_nodes = group.nodes
    try:
        asked = gres.parse_request(group.gres)
        on_min_nodes = _alternatives(group, asked, min_nodes)
    except (UnreadableConstraint, UnreadableGres) as error:
        return (Part(Need(group.cpus, 0, unreadable=str(error)), min_nodes),)

    found = _first_fitting(on_min_nodes, fits)
    if found is not None:
        return found
    max_nodes = _max_nodes(group, asked)

    def fitting_parts(nodes: int) -> tuple[Part, ...] | None:
        return _first_fitting(_alternatives(group, asked, nodes), fits)

    if max_nodes > min_nodes and fitting_parts(max_nodes) is not None:
        # The requirements on each node shrink with the number of nodes, so bisection finds the fewest that fit.
        fewest = bisect_left(range(max_nodes), True, lo=min_nodes, key=lambda nodes: fitting_parts(nodes) is not None)
        found = fitting_parts(fewest)
    return found or on_min_nodes[0]


def _interchangeable(parts: tuple[Part, ...], fits: Fits) -> tuple[Part, ...]:
    """The parts of a heterogeneous job, each of which needs as much as any other one with the same GPUs.

    Slurm places the components one after the other, each on any node that fits, and no two on one node. It tries no
    other order: if a small component took the only node that is large enough for another one, the job would wait for
    ever. On nodes that fit all of them, that cannot happen.
    """
    made: list[Part] = []
    for part in parts:
        alike = [each.need for each in parts if each.need.gres == part.need.gres]
        largest = replace(
            part.need, cpus=max(each.cpus for each in alike), memory_mib=max(each.memory_mib for each in alike)
        )
        made.append(replace(part, need=largest) if fits(largest) else part)
    return tuple(made)


def _max_nodes(group: PendingJobs, asked: Iterable[gres.GresRequest]) -> int:
    """The most nodes a job can use: each runs a task, or has one of the GPUs that the job requests in total."""
    job_totals = (each.gres.count for each in asked if each.per == "job")
    return max(group.nodes, group.max_nodes or max(group.tasks or 1, *job_totals, 1))


def _first_fitting(alternatives: Iterable[tuple[Part, ...]], fits: Fits) -> tuple[Part, ...] | None:
    """The first alternative of which all nodes could be new workers."""
    return next((parts for parts in alternatives if all(part.need.node or fits(part.need) for part in parts)), None)


def _alternatives(group: PendingJobs, asked: tuple[gres.GresRequest, ...], nodes: int) -> list[tuple[Part, ...]]:
    """The requirements on the nodes if the job runs on this many, in the order of preference."""
    return [tuple(_parts_of_layout(group, asked, layout)) for layout in layouts(group.features, nodes)]


def _parts_of_layout(group: PendingJobs, asked: tuple[gres.GresRequest, ...], layout: Layout) -> Iterator[Part]:
    nodes = sum(count for _, count in layout)
    required_nodes = list(group.required_nodes)
    for constraint, count in layout:
        named = [required_nodes.pop(0) for _ in range(min(count, len(required_nodes)))]
        yield from (Part(_need(group, asked, nodes, constraint, node)) for node in named)
        if count > len(named):
            yield Part(_need(group, asked, nodes, constraint), count - len(named))


def _need(group: PendingJobs, asked: tuple[gres.GresRequest, ...], nodes: int, constraint: str, node: str = "") -> Need:
    """The requirements on the busiest of `nodes` nodes: tasks and GPUs are spread evenly, and no task is split."""
    tasks = -(-group.cpus // group.cpus_per_task)
    cpus = max(-(-tasks // nodes) * group.cpus_per_task, group.cpus_per_node)
    resources = gres.needed_on_node(asked, -(-(group.tasks or 1) // nodes), nodes)
    return Need(
        cpus=cpus,
        memory_mib=_memory_mib(group, cpus, gres.gpu_count(resources)),
        constraint=constraint,
        gres=resources,
        exclusive=group.exclusive or group.memory_per_node_mib == 0,
        exclusive_uid=group.uid if group.exclusive_user else None,
        node=node,
        excluded_nodes=frozenset(group.excluded_nodes),
    )


def _memory_mib(group: PendingJobs, cpus: int, gpus: int) -> int:
    if group.memory_per_node_mib:
        return group.memory_per_node_mib
    if group.memory_per_gpu_mib:
        return group.memory_per_gpu_mib * gpus
    if group.memory_per_cpu_mib:
        return group.memory_per_cpu_mib * cpus
    return DEFAULT_MEMORY_MIB_PER_CPU * cpus
