"""What a job needs of each of its nodes: one translation for purchases, estimates and quotas."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from clusterra_contracts import gres
from clusterra_contracts.constraints import Layout, UnreadableConstraint, layouts
from clusterra_contracts.gres import Gres, UnreadableGres
from clusterra_contracts.queue import PendingJobs

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


type Fits = Callable[[Need], bool]
"""Tells whether some new worker would meet the requirements on a node."""


def parts_of(group: PendingJobs, fits: Fits) -> tuple[Part, ...]:
    """Return the nodes of one of these jobs, with the requirements on each.

    A job with a range of node counts counts with the fewest nodes that new workers could be; if none could, with the
    fewest that it allows. What cannot be parsed makes one part whose need is `unreadable`.
    """
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


def interchangeable(parts: Sequence[Part], fits: Fits) -> tuple[Part, ...]:
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


def node_count(group: PendingJobs) -> int:
    """The number of nodes that each of these jobs asks for, with those that its constraint counts."""
    if "*" not in group.features:
        return group.nodes
    try:
        return max(sum(count for _, count in layout) for layout in layouts(group.features, group.nodes))
    except UnreadableConstraint:
        return group.nodes


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
