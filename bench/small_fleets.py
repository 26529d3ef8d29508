"""Small fleets with their heartbeats and snapshots, as the inputs of a scaler with many small clusters."""

import random
from datetime import UTC, datetime

from clusterra_contracts.heartbeat import Applied, Heartbeat, Worker
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.scale import ShapeTarget
from clusterra_contracts.shapes import Catalogue
from clusterra_scaler.planner.observed.observation import Edge
from clusterra_scaler.planner.observed.state import FleetState
from random_queues import HOUR

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def fleet(catalogue: Catalogue, chance: random.Random) -> FleetState:
    """A fleet of two to six workers of one or two shapes."""
    shapes = chance.sample(catalogue.shapes, chance.randint(1, 2))
    return FleetState(
        decided_at=START,
        generation=1,
        targets=tuple(
            ShapeTarget(shape=each.name, worker=each.worker, replicas=chance.randint(2, 3)) for each in shapes
        ),
    )


def names(state: FleetState) -> list[tuple[str, str]]:
    """Name and shape of each desired worker."""
    return [(f"{each.shape}-{number}", each.shape) for each in state.targets for number in range(each.replicas)]


def edge_of(state: FleetState, generation: int, now: datetime) -> Edge:
    """An edge that has applied the desired state."""
    heartbeat = Heartbeat(
        generation=generation,
        sent_at=now,
        agent_version="1",
        substrate="process",
        applied=Applied(generation=state.generation, fence=state.fence, applied_at=now),
        workers=tuple(
            Worker(name=name, shape=shape, phase="running", started_at=START) for name, shape in names(state)
        ),
    )
    return Edge().after(heartbeat, now)


def snapshot(
    state: FleetState, generation: int, now: datetime, catalogue: Catalogue, chance: random.Random
) -> QueueSnapshot:
    """A snapshot in which every worker except the last runs a job, and up to four more jobs wait."""
    workers = names(state)
    busy = {name: number for number, (name, _) in enumerate(workers[:-1], start=1)}
    running = tuple(
        RunningJob(job_id=str(number), uid=20001, user="ada", nodes=(name,), cpus=1, started_at=START)
        for name, number in busy.items()
    )
    nodes = tuple(
        NodeState(
            name=name,
            states=("MIXED",) if name in busy else ("IDLE",),
            cpus=catalogue[shape].vcpu,
            cpus_allocated=int(name in busy),
            memory_mib=catalogue[shape].worker.memory_mib,
            memory_allocated_mib=1024 * (name in busy),
            features=catalogue[shape].worker.features,
            idle_since=None if name in busy else START,
            registered_at=START,
        )
        for name, shape in workers
    )
    pending = tuple(
        PendingJobs(
            job_ids=(str(1000 * generation + number),),
            count=1,
            cpus=chance.choice((1, 2, 4, 8)),
            memory_per_node_mib=chance.choice((1024, 4096, 12288)),
            partition="main",
            uid=20001 + number,
            reason="Resources",
            time_limit_seconds=chance.choice((600.0, HOUR, 24 * HOUR)),
            first_submitted_at=now,
        )
        for number in range(chance.randint(0, 4))
    )
    return QueueSnapshot(generation=generation, taken_at=now, pending=pending, running=running, nodes=nodes)
