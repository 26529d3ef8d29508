"""The supply: the capacity of present and coming workers that pending jobs can use without a purchase."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from clusterra_contracts import gres
from clusterra_contracts.gres import GresCounts
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_contracts.rpc.slurm_nodes import DRAIN_REASON_PREFIX
from clusterra_contracts.shapes import WorkerSpec

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState

_UNUSABLE = frozenset({
    "BLOCKED",
    "ERROR",
    "FAIL",
    "FUTURE",
    "INVALID",
    "INVALID_REG",
    "MAINTENANCE",
    "POWER_DOWN",
    "POWERED_DOWN",
    "POWERING_DOWN",
    "REBOOT_ISSUED",
    "RESERVED",
    "UNREADABLE",
})  # fmt: skip

Kind = Literal["node", "booting", "ordered", "draining", "new"]
_AVAILABILITY: Mapping[Kind, int] = {"node": 0, "draining": 1, "booting": 2, "ordered": 3, "new": 4}
"""The order in which they become available to Slurm."""


@dataclass(slots=True)
class SupplyBin:
    """The free capacity of one worker: CPUs, MiB of memory and generic resources. Assignments fill it in place."""

    kind: Kind
    name: WorkerName
    """Empty for an ordered or new worker, which has no name yet."""
    shape: ShapeName
    """Empty for a node that is not one of our workers."""
    features: frozenset[str]
    cpus: int
    memory_mib: int
    gres: GresCounts
    """An immutable mapping; a change replaces it."""
    empty: bool
    """Whether no job runs on the worker."""
    weight: int = 1
    """Slurm allocates nodes of the lowest weight first."""
    exclusive_uid: int | None = None
    """If set, only this user's jobs may be assigned."""
    used: bool = False
    """Whether a job was assigned."""


@dataclass(frozen=True, slots=True)
class Supply:
    """The cluster's workers, joined from Slurm's nodes, the edge's workers and the targets of our own decisions."""

    bins: list[SupplyBin]
    """Usable nodes, nodes that we drain and can undrain, and booting workers."""
    ordered: Mapping[ShapeName, int]
    """Workers that were ordered and that the edge does not report yet. An order stands until the edge has filled it:
    the edge keeps trying for as long as the target asks for it, so that ordering more would not help."""
    specs: Mapping[ShapeName, WorkerSpec]
    """The shapes of the catalogue and of all targets."""
    workers: Mapping[WorkerName, Worker]
    """Active workers: booting or running, of a known shape, and not victims. Empty before the edge's first report.
    Interrupted workers are active for as long as the edge reports them, but have no bin."""
    nodes: Mapping[str, NodeState]
    """Slurm's nodes; empty if they are unknown."""
    active_by_shape: Counter[ShapeName]
    """The number of active workers of each shape, without those taken back that the edge may still remove. Before the
    edge's first report it counts Slurm's nodes."""
    worker_nodes: frozenset[str]
    """Slurm's nodes that are workers of a known shape, whether the edge has them or not."""
    leaving_by_shape: Counter[ShapeName]
    """The number of present workers of each shape that are not counted as active, such as victims."""


def supply_of(observation: Observation, state: FleetState, latency: ProvisioningLatency) -> Supply:
    """Join Slurm's nodes, the edge's workers and the targets.

    A node whose worker the edge does not report is no supply: either the worker is dead, or it is an ordered one and
    counted as such. Before the edge's first report, Slurm's nodes count as its workers.
    """
    specs = {target.shape: target.worker for target in state.targets}
    specs |= {shape.name: shape.worker for shape in observation.binding.catalogue.shapes}
    victims = state.victims
    nodes = {node.name: node for node in observation.snapshot.nodes or ()}
    shapes = {node.name: shape for node in nodes.values() if (shape := shape_of(node, specs))}
    reported = observation.edge.workers
    workers = {
        worker.name: worker
        for worker in reported or ()
        if worker.phase in ("booting", "running") and worker.name not in victims and worker.shape in specs
    }
    if reported is None:
        uncounted = victims | state.taken_back.keys()
        active_by_shape = Counter(shape for name, shape in shapes.items() if name not in uncounted)
        leaving_by_shape = Counter(
            {target.shape: len(target.victims) + len(target.unregistered) for target in state.targets}
        ) + Counter(shapes[name] for name in state.taken_back.keys() & shapes.keys())
    else:
        counted = {name: worker.shape for name, worker in workers.items() if name not in state.taken_back}
        active_by_shape = Counter(counted.values())
        leaving_by_shape = Counter(
            worker.shape for worker in reported if worker.phase != "failed" and worker.name not in counted
        )

    limits_seconds = {shape: latency.limit_seconds(shape, observation.binding.policy) for shape in specs}
    in_use = _InUse(observation.snapshot.running or ())
    bins: list[SupplyBin] = []
    for node in nodes.values():
        unreported = reported is not None and node.name in shapes and node.name not in workers
        if unreported or node.name in victims or node.not_responding or not is_usable(node):
            continue
        if node.name in workers and workers[node.name].leaves_by is not None:
            continue
        unconfirmed_drain = not node.draining and (node.name in state.drains or node.name in state.undrains)
        kind: Kind = "draining" if drained_by_us(node) or unconfirmed_drain else "node"
        if kind == "draining" or not node.draining:
            shape = shapes.get(node.name, "")
            bins.append(_node_bin(kind, node, shape, specs.get(shape), in_use))
    bins += [
        empty_bin("booting", worker.name, worker.shape, specs[worker.shape])
        for worker in workers.values()
        if _is_booting(worker, nodes.get(worker.name), observation.now, limits_seconds[worker.shape])
    ]
    ordered = {target.shape: max(0, target.replicas - active_by_shape[target.shape]) for target in state.targets}
    return Supply(bins, ordered, specs, workers, nodes, active_by_shape, frozenset(shapes), leaving_by_shape)


def is_usable(node: NodeState) -> bool:
    """Whether Slurm may start jobs on a node, as far as its state and its record tell.

    A record that cannot be read, or that a strange slurmd registered, has no CPUs or no memory.
    """
    return node.cpus > 0 and node.memory_mib > 0 and not _UNUSABLE.intersection(node.states)


def drained_by_us(node: NodeState) -> bool:
    """Whether the drain has our reason: only such a drain may be undone by us, or lead to a removal."""
    return node.draining and node.reason.startswith(DRAIN_REASON_PREFIX)


def shape_of(node: NodeState, shapes: Mapping[ShapeName, WorkerSpec]) -> ShapeName:
    """The shape that a node names among its features; empty for a node that is not one of our workers."""
    return next((feature for feature in node.features if feature in shapes), "")


def empty_bin(kind: Kind, name: WorkerName, shape: ShapeName, spec: WorkerSpec) -> SupplyBin:
    """The bin of an empty worker."""
    total = gres.parse_spec(spec.gres)
    features = frozenset(spec.features)
    return SupplyBin(kind, name, shape, features, spec.cpus, spec.memory_mib, total, empty=True, weight=spec.weight)


def _is_booting(worker: Worker, node: NodeState | None, now: datetime, limit_seconds: float) -> bool:
    """Whether an unregistered worker is expected to come: not interrupted, and younger than its shape's limit."""
    if worker.leaves_by is not None or not (node is None or node.not_responding):
        return False
    return (now - worker.started_at).total_seconds() < limit_seconds


class _InUse:
    """What running jobs use on each node. A job of several nodes is assumed to use as many CPUs on each of them."""

    def __init__(self, running: Iterable[RunningJob]) -> None:
        self.cpus: Counter[str] = Counter()
        self.gres: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for job in running:
            for name in job.nodes:
                self.cpus[name] += -(-job.cpus // len(job.nodes))
            for name, counts in job.gres.items():
                self.gres[name].update(counts)


def _node_bin(kind: Kind, node: NodeState, shape: ShapeName, spec: WorkerSpec | None, in_use: _InUse) -> SupplyBin:
    """The bin of a node, for the jobs that the snapshot lists as pending.

    A snapshot reads jobs and nodes one after the other. The running jobs tell what is in use: a job that has started in
    between is still listed as pending, and must fit into the capacity that it already uses. The memory in use is
    adjusted in proportion to the CPUs.
    """
    total = gres.with_types(node.gres, gres.parse_spec(spec.gres if spec else ""))
    cpus_in_use = in_use.cpus[node.name]
    if cpus_in_use == node.cpus_allocated:
        memory_in_use = node.memory_allocated_mib
    elif cpus_in_use < node.cpus_allocated:
        memory_in_use = node.memory_allocated_mib * cpus_in_use // node.cpus_allocated
    else:
        memory_in_use = max(node.memory_allocated_mib, node.memory_mib * cpus_in_use // node.cpus)
    return SupplyBin(
        kind,
        node.name,
        shape,
        frozenset(node.features),
        # Of a job on unequal nodes, more may seem to be in use on a small one than there is.
        cpus=max(node.cpus - cpus_in_use, 0),
        memory_mib=max(node.memory_mib - memory_in_use, 0),
        gres=gres.subtract(gres.request_for(in_use.gres[node.name]), total),
        empty=cpus_in_use == 0,
        weight=spec.weight if spec else 1,
    )


def best_fit_key(candidate: SupplyBin) -> tuple[int, int, bool, int, int, str]:
    """The sort key of best fit: by availability, then by Slurm's weight, busy workers before empty ones, least free
    capacity first."""
    return (
        _AVAILABILITY[candidate.kind],
        candidate.weight,
        candidate.empty,
        candidate.cpus,
        candidate.memory_mib,
        candidate.name,
    )
