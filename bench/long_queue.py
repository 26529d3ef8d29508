"""A cluster with a long queue as its scaler observes it: first all jobs wait, then workers for them are booting."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from clusterra_contracts.heartbeat import Applied, Heartbeat, Worker, WorkerPhase
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.scale import ShapeTarget
from clusterra_contracts.shapes import Catalogue, Family, Shape
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.packing.items import Group
from random_queues import HOUR, OFFERINGS, queue

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS_SECONDS = (HOUR, 2 * HOUR, 4 * HOUR, 24 * HOUR)
BUSY_SHAPE = "general-16"
USERS = 50
LAST_ID = 2_000_000
_MIB_PER_GIB = 1024


def _family(cpus: int, memory_gib: float, gpus: int) -> Family:
    if gpus:
        return "a10g"
    return "compute" if memory_gib <= 2 * cpus else "general" if memory_gib <= 4 * cpus else "memory"


CATALOGUE = Catalogue(
    shapes=tuple(
        Shape(
            name=each.shape,
            family=_family(each.cpus, each.memory_gib, each.gpus),
            size="medium",
            vcpu=each.cpus,
            memory_gib=each.memory_gib,
            usd_per_hour=each.usd_per_second * HOUR,
            gpu_count=each.gpus,
            gpu_model="a10g" if each.gpus else "",
        )
        for each in OFFERINGS
    )
)
"""The offerings of `random_queues` as shapes."""


@dataclass(slots=True)
class LongQueue:
    """Waiting jobs, to which more can be added, and the workers that were decided for them."""

    pending: tuple[PendingJobs, ...]
    rng: random.Random
    most_workers: int
    running: tuple[RunningJob, ...] = ()
    nodes: tuple[NodeState, ...] = ()
    edge: Edge = field(default_factory=Edge)
    generation: int = 1

    @classmethod
    def of(cls, vectors: int, jobs: int, rng: random.Random) -> "LongQueue":
        """A queue of `jobs` jobs with `vectors` different resource vectors."""
        return cls(_pending(queue("job", vectors, jobs, rng), 1, rng), rng, most_workers=2 * jobs)

    def observation(self) -> Observation:
        """The scaler's current observation."""
        now = START + timedelta(seconds=self.generation)
        snapshot = QueueSnapshot(
            generation=self.generation, taken_at=now, pending=self.pending, running=self.running, nodes=self.nodes
        )
        return Observation(self._binding(), snapshot, self.edge, now)

    def add_busy_workers(self, workers: int) -> FleetState:
        """Add workers of one shape, each with a job that leaves a quarter free, and return the fleet state."""
        shape = CATALOGUE[BUSY_SHAPE]
        names = [f"{shape.name}-{number}" for number in range(workers)]
        cpus, memory_mib = shape.vcpu * 3 // 4, shape.worker.memory_mib * 3 // 4
        self.running = tuple(
            RunningJob(
                job_id=str(LAST_ID - number),
                uid=20001 + number % USERS,
                user=f"user-{number % USERS}",
                nodes=(name,),
                cpus=cpus,
                memory_mib=memory_mib,
                started_at=START - timedelta(seconds=self.rng.uniform(0.0, 4 * HOUR)),
                ends_by=START + timedelta(seconds=self.rng.uniform(0.0, 24 * HOUR)),
            )
            for number, name in enumerate(names)
        )
        self.nodes = tuple(
            NodeState(
                name=name,
                states=("MIXED",),
                cpus=shape.vcpu,
                cpus_allocated=cpus,
                memory_mib=shape.worker.memory_mib,
                memory_allocated_mib=memory_mib,
                features=shape.worker.features,
                registered_at=START - timedelta(days=1),
                extra=OPEN,
            )
            for name in names
        )
        target = ShapeTarget(shape=shape.name, worker=shape.worker, replicas=workers)
        state = FleetState(generation=1, decided_at=START, targets=(target,))
        self._report(state, "running")
        return state

    def boot(self, state: FleetState) -> None:
        """Let the edge report all desired workers as booting."""
        self._report(state, "booting")

    def _report(self, state: FleetState, phase: WorkerPhase) -> None:
        self.generation += 1
        now = START + timedelta(seconds=self.generation)
        heartbeat = Heartbeat(
            generation=self.generation,
            sent_at=now,
            agent_version="1",
            substrate="process",
            applied=Applied(generation=state.generation, fence=state.fence, applied_at=now),
            workers=tuple(
                Worker(name=f"{each.shape}-{number}", shape=each.shape, phase=phase, started_at=now)
                for each in state.targets
                for number in range(each.replicas)
            ),
        )
        self.edge = self.edge.after(heartbeat, now)

    def with_more(self, vectors: int, jobs: int) -> Observation:
        """The observation with more jobs, which are not kept for the next call."""
        self.generation += 1
        observation = self.observation()
        first = 1 + sum(len(group.job_ids) for group in self.pending)
        more = _pending(queue("more", vectors, jobs, self.rng), first, self.rng)
        # As over the wire: the snapshot shares no object with the one before.
        snapshot = observation.snapshot.model_copy(update={"pending": (*self.pending, *more)})
        return Observation(
            observation.binding,
            QueueSnapshot.model_validate_json(snapshot.model_dump_json()),
            observation.edge,
            observation.now,
        )

    def _binding(self) -> ClusterBinding:
        return ClusterBinding(
            name="c1",
            slurmrestd_url="http://127.0.0.1:6820",
            jwt_key="file:/dev/null",
            operator=SlurmUser(name="clusterra-operator", uid=64031, gid=64031),
            catalogue=CATALOGUE,
            policy=ScalingPolicy(max_workers=self.most_workers),
        )


def _pending(groups: Sequence[Group], first_id: int, rng: random.Random) -> tuple[PendingJobs, ...]:
    pending: list[PendingJobs] = []
    for group in groups:
        ids = range(first_id, first_id + len(group.job_ids))
        first_id = ids.stop
        uid, limit_seconds = 20001 + int(group.owner.rpartition("-")[2]), rng.choice(LIMITS_SECONDS)
        job_class = f"u{uid}.t{limit_seconds:.0f}.c{group.cpus}.m{group.memory_gib:.2f}"
        pending.append(
            PendingJobs(
                job_ids=tuple(map(str, ids)),
                count=len(ids),
                cpus=group.cpus * group.nodes,
                nodes=group.nodes,
                memory_per_node_mib=int(group.memory_gib * _MIB_PER_GIB),
                gres=f"node/gpu={group.gpus}" if group.gpus else "",
                exclusive=group.exclusive,
                partition="main",
                uid=uid,
                reason="Resources",
                time_limit_seconds=limit_seconds,
                first_submitted_at=START,
                extra=f"open=1|{job_class}=1" if group.nodes == 1 and not group.gpus else "",
            )
        )
    return tuple(pending)
