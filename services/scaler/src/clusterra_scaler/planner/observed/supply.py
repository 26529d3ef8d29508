"""What there is and what is coming: the room that pending jobs could use without buying anything."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_contracts.rpc.slurm import DRAIN_REASON_PREFIX
from clusterra_contracts.shapes import WorkerSpec

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.requests import gres
from clusterra_scaler.planner.requests.gres import Free

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
})  # fmt: skip

Kind = Literal["node", "booting", "ordered", "draining", "new"]
_ORDER: Mapping[Kind, int] = {"node": 0, "draining": 1, "booting": 2, "ordered": 3, "new": 4}
"""In which Slurm could have them."""


@dataclass(slots=True)
class SupplyBin:
    """Room on one worker: free CPUs, MiB and generic resources. It is filled in place."""

    kind: Kind
    name: WorkerName
    """Empty for a worker that has no name yet."""
    shape: ShapeName
    """Empty for a node that is no worker of ours."""
    features: frozenset[str]
    cpus: int
    memory_mib: int
    gres: Free
    """Never changed itself, but exchanged."""
    empty: bool
    weight: int = 1
    """Slurm gives a job what it can of the lowest first."""
    only_for_uid: int | None = None
    """Nobody else's jobs may go there."""
    used: bool = False


@dataclass(frozen=True, slots=True)
class Supply:
    """The cluster's workers, joined from what Slurm, the edge and our own decisions say of them."""

    bins: list[SupplyBin]
    """Nodes, those whose drain is ours and can be taken back, and booting workers."""
    ordered: Mapping[ShapeName, int]
    """Workers that were ordered and that the edge has not told of. An order stands until the edge has filled it: it
    tries for as long as it is told to, and ordering more would help nobody."""
    specs: Mapping[ShapeName, WorkerSpec]
    """The shapes that can be ordered, and those that were."""
    workers: Mapping[WorkerName, Worker]
    """Workers that stand: booting or running, of a shape of ours, and no victims. Empty before the edge has told.
    Those whose machine will be taken away stand as long as the edge counts them, and are room for nothing."""
    nodes: Mapping[str, NodeState]
    """Slurm's nodes; empty when they are not known."""
    standing: Counter[ShapeName]
    ours: frozenset[str]
    """Slurm's nodes that are workers of a shape of ours, there or not."""
    leaving: Counter[ShapeName]
    """Workers that are there and do not stand, such as victims."""


def supply_of(observation: Observation, state: FleetState, latency: ProvisioningLatency) -> Supply:
    """Join the three views.

    A worker that Slurm has and the edge has not told of is no supply: either it is dead, or it is one of those
    ordered, and counted so. Before the edge has told anything, Slurm's nodes are taken for its workers.
    """
    specs = {target.shape: target.worker for target in state.targets}
    specs |= {shape.name: shape.worker for shape in observation.binding.catalogue.shapes}
    victims = state.victims
    nodes = {node.name: node for node in observation.snapshot.nodes or ()}
    ours = {node.name: shape for node in nodes.values() if (shape := shape_of(node, specs))}
    listed = observation.edge.workers
    workers = {
        worker.name: worker
        for worker in listed or ()
        if worker.phase in ("booting", "running") and worker.name not in victims and worker.shape in specs
    }
    if listed is None:
        standing = Counter(shape for name, shape in ours.items() if name not in victims)
        leaving = Counter({target.shape: len(target.victims) + len(target.unregistered) for target in state.targets})
    else:
        standing = Counter(worker.shape for worker in workers.values())
        leaving = Counter(worker.shape for worker in listed if worker.phase != "failed" and worker.name not in workers)

    limits_seconds = {shape: latency.limit_seconds(shape, observation.binding.policy) for shape in specs}
    in_use = _InUse(observation.snapshot.running or ())
    bins: list[SupplyBin] = []
    for node in nodes.values():
        lost = listed is not None and node.name in ours and node.name not in workers
        if lost or node.name in victims or node.gone or _UNUSABLE.intersection(node.states):
            continue
        if node.name in workers and workers[node.name].leaves_by is not None:
            continue
        unseen_drain = not node.draining and (node.name in state.drains or node.name in state.undrains)
        kind: Kind = "draining" if drained_by_us(node) or unseen_drain else "node"
        if kind == "draining" or not node.draining:
            shape = ours.get(node.name, "")
            bins.append(_node_bin(kind, node, shape, specs.get(shape), in_use))
    bins += [
        spec_bin("booting", worker.name, worker.shape, specs[worker.shape])
        for worker in workers.values()
        if _still_boots(worker, nodes.get(worker.name), observation.now, limits_seconds[worker.shape])
    ]
    ordered = {target.shape: max(0, target.replicas - standing[target.shape]) for target in state.targets}
    return Supply(bins, ordered, specs, workers, nodes, standing, frozenset(ours), leaving)


def drained_by_us(node: NodeState) -> bool:
    """Whether it is drained for our reason: only such a drain may be taken back, or lead to a removal."""
    return node.draining and node.reason.startswith(DRAIN_REASON_PREFIX)


def shape_of(node: NodeState, shapes: Mapping[ShapeName, WorkerSpec]) -> ShapeName:
    """The shape whose name is among a node's features; empty for a node that is no worker of ours."""
    return next((feature for feature in node.features if feature in shapes), "")


def spec_bin(kind: Kind, name: WorkerName, shape: ShapeName, spec: WorkerSpec) -> SupplyBin:
    """A worker that nothing runs on yet."""
    has = gres.of_worker(spec.gres)
    features = frozenset(spec.features)
    return SupplyBin(kind, name, shape, features, spec.cpus, spec.memory_mib, has, empty=True, weight=spec.weight)


def _still_boots(worker: Worker, node: NodeState | None, now: datetime, limit_seconds: float) -> bool:
    if worker.leaves_by is not None or not (node is None or node.gone):
        return False
    return (now - worker.started_at).total_seconds() < limit_seconds


class _InUse:
    """What running jobs have by node; of the CPUs a job of several nodes is taken to have the same number on each."""

    def __init__(self, running: Iterable[RunningJob]) -> None:
        self.cpus: Counter[str] = Counter()
        self.gres: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for job in running:
            for name in job.nodes:
                self.cpus[name] += -(-job.cpus // len(job.nodes))
            for name, counts in job.gres.items():
                self.gres[name].update(counts)


def _node_bin(kind: Kind, node: NodeState, shape: ShapeName, spec: WorkerSpec | None, in_use: _InUse) -> SupplyBin:
    """What a node has for the jobs that the snapshot calls pending.

    A snapshot's jobs and nodes may be read one after the other. What is in use is told by the jobs: a job that has
    started in between is still pending here, and must find room where it runs by now. The memory follows the CPUs.
    """
    has = gres.typed(node.gres, gres.of_worker(spec.gres if spec else ""))
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
        cpus=node.cpus - cpus_in_use,
        memory_mib=node.memory_mib - memory_in_use,
        gres=gres.without(gres.asking_for(in_use.gres[node.name]), has),
        empty=cpus_in_use == 0,
        weight=spec.weight if spec else 1,
    )


def best_fit(candidate: SupplyBin) -> tuple[int, int, bool, int, int, str]:
    """How bins are sorted: what is there first, then what is coming; then as Slurm does by their weight; the busy
    before the idle, the smallest first."""
    return (
        _ORDER[candidate.kind],
        candidate.weight,
        candidate.empty,
        candidate.cpus,
        candidate.memory_mib,
        candidate.name,
    )
