"""What the workers of a cluster are and do, from the edge's heartbeat and the queue. Pure functions."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import JobId, ShapeName
from clusterra_contracts.queue import NodeState, QueueSnapshot, RunningJob
from clusterra_contracts.registry import ClusterBinding

from clusterra_gateway.http.answers.responses import ResponseBody

WorkerState = Literal["booting", "idle", "busy", "draining", "down", "terminating", "failed"]
"""`booting`: from its start until Slurm has its node; `down`: its node does not respond."""
PriceSource = Literal["machine", "catalogue"]

_EXACT = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker with its node in Slurm and the jobs on it, whoever may see these."""

    worker: Worker
    node: NodeState | None
    """None before Slurm knows it, or where the nodes could not be read."""
    state: WorkerState | None
    """None where only Slurm could tell, and its nodes are not known."""
    usd_per_hour: Decimal | None
    price_source: PriceSource | None
    jobs: tuple[RunningJob, ...]

    @property
    def since(self) -> datetime | None:
        """Since when it boots or is idle; None for any other state, or where Slurm does not tell."""
        if self.state == "booting":
            return self.worker.started_at
        return self.node.idle_since if self.state == "idle" and self.node is not None else None


def rows_of(heartbeat: Heartbeat, queue: QueueSnapshot | None, binding: ClusterBinding) -> tuple[WorkerRow, ...]:
    """The workers of a heartbeat by name. `queue` is None where it could not be read, or is too old."""
    nodes = None if queue is None or queue.nodes is None else {node.name: node for node in queue.nodes}
    jobs = defaultdict[str, list[RunningJob]](list)
    for job in queue.running or () if queue is not None else ():
        for name in job.nodes:
            jobs[name].append(job)
    price = _prices(heartbeat, binding)
    rows = []
    for worker in sorted(heartbeat.workers or (), key=lambda each: each.name):
        usd_per_hour, source = price(worker)
        rows.append(
            WorkerRow(
                worker=worker,
                node=None if nodes is None else nodes.get(worker.name),
                state=_state(worker, nodes, jobs.get(worker.name, ())),
                usd_per_hour=usd_per_hour,
                price_source=source,
                jobs=tuple(jobs.get(worker.name, ())),
            )
        )
    return tuple(rows)


def _state(worker: Worker, nodes: Mapping[str, NodeState] | None, jobs: Sequence[RunningJob]) -> WorkerState | None:
    if worker.phase in ("terminating", "failed"):
        return worker.phase
    node = None if nodes is None else nodes.get(worker.name)
    if node is None:
        return "booting" if worker.phase == "booting" or nodes is not None else None
    if node.not_responding:
        return "booting" if worker.phase == "booting" else "down"
    if node.draining:
        return "draining"
    return "idle" if node.idle and not jobs else "busy"


def _prices(
    heartbeat: Heartbeat, binding: ClusterBinding
) -> Callable[[Worker], tuple[Decimal | None, PriceSource | None]]:
    """The price of a worker's machine. An edge that reports neither machines nor prices cannot know them: its workers
    have the list price of their shape.
    """
    if heartbeat.node_claims is None and heartbeat.prices is None:
        listed = {shape.name: _usd(shape.usd_per_hour) for shape in binding.catalogue.shapes}
        return lambda worker: (listed.get(worker.shape), "catalogue" if worker.shape in listed else None)
    prices = {(each.instance_type, each.lifecycle, each.zone): each.usd_per_hour for each in heartbeat.prices or ()}
    machines = {
        claim.node_name: _usd(prices[offer])
        for claim in heartbeat.node_claims or ()
        if claim.node_name
        and claim.lifecycle is not None
        and (offer := (claim.instance_type, claim.lifecycle, claim.zone)) in prices
    }
    return lambda worker: (machines.get(worker.node), "machine" if worker.node in machines else None)


def _usd(amount: float) -> Decimal:
    return Decimal(repr(amount)).quantize(_EXACT)


class ShapeWorkers(ResponseBody):
    """All workers of a shape, but those that failed. `unpriced` of them have no known price, and count for 0 USD."""

    shape: ShapeName
    workers: int
    by_state: dict[WorkerState, int]
    usd_per_hour: Decimal
    unpriced: int


def by_shape(rows: Iterable[WorkerRow]) -> tuple[ShapeWorkers, ...]:
    """The sums by shape. A worker that failed is none: it costs nothing and runs nothing."""
    shapes = defaultdict[ShapeName, list[WorkerRow]](list)
    for row in rows:
        if row.state != "failed":
            shapes[row.worker.shape].append(row)
    return tuple(_counts(shape, of_shape) for shape, of_shape in sorted(shapes.items()))


def _counts(shape: ShapeName, rows: Sequence[WorkerRow]) -> ShapeWorkers:
    states: dict[WorkerState, int] = {}
    for row in rows:
        if row.state is not None:
            states[row.state] = states.get(row.state, 0) + 1
    priced = [row.usd_per_hour for row in rows if row.usd_per_hour is not None]
    usd_per_hour, unpriced = sum(priced, Decimal(0)), len(rows) - len(priced)
    return ShapeWorkers(shape=shape, workers=len(rows), by_state=states, usd_per_hour=usd_per_hour, unpriced=unpriced)


def job_ids(row: WorkerRow, sees: Callable[[int], bool], most: int) -> tuple[JobId, ...]:
    """The jobs on a worker that somebody sees, at most so many."""
    return tuple(job.job_id for job in row.jobs if sees(job.uid))[:most]
