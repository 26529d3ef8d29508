"""Short constructors for the inputs of a decision. Moments are in seconds from `START`."""

from datetime import UTC, datetime, timedelta
from typing import Any

from clusterra_contracts.heartbeat import Applied, Heartbeat, Stuck, Worker, WorkerPhase
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.rpc.slurm_nodes import DRAIN_REASON_PREFIX
from clusterra_contracts.scale import ShapeTarget
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.state import FleetState

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CATALOGUE = Catalogue(
    shapes=tuple(
        Shape.model_validate(
            {
                "name": f"{family}-{size}",
                "family": family,
                "size": size,
                "vcpu": vcpu,
                "memory_gib": vcpu * gib,
                "usd_per_hour": vcpu * 0.04,
            }
        )
        for family, gib in (("compute", 2), ("general", 4), ("memory", 8))
        for size, vcpu in (("xs", 2), ("small", 4), ("medium", 8), ("large", 16), ("xlarge", 32))
    )
)
WITH_GPUS = Catalogue(
    shapes=(
        *CATALOGUE.shapes,
        *(
            Shape.model_validate(
                {
                    "name": f"{model}-{size}",
                    "family": model,
                    "size": size,
                    "vcpu": vcpu,
                    "memory_gib": vcpu * 8,
                    "usd_per_hour": gpus * usd,
                    "gpu_count": gpus,
                    "gpu_model": model,
                }
            )
            for model, usd in (("l4", 0.8), ("h100", 6.0))
            for size, vcpu, gpus in (("small", 8, 1), ("large", 16, 2), ("xlarge", 32, 4))
        ),
    )
)
"""The catalogue with shapes of 1, 2 and 4 GPUs of two models, one of which is far more expensive."""
OUR_DRAIN = DRAIN_REASON_PREFIX + "idle"
"""The reason of a drain by the scaler."""
NOW = 1000.0


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def binding(catalogue: Catalogue = CATALOGUE, **policy: Any) -> ClusterBinding:
    return ClusterBinding(
        name="c1",
        slurmrestd_url="http://127.0.0.1:6820",
        jwt_key="file:/dev/null",
        operator=SlurmUser(name="clusterra-operator", uid=64031, gid=64031),
        catalogue=catalogue,
        policy=ScalingPolicy.model_validate({"name": "family", **policy}),
    )


def group(*job_ids: str, **asked: Any) -> PendingJobs:
    """Equal pending jobs, by default of 1 CPU and 2 GiB."""
    ids = job_ids or ("1",)
    defaults = {
        "job_ids": ids,
        "count": len(ids),
        "cpus": 1,
        "memory_per_node_mib": 2048,
        "partition": "main",
        "uid": 20001,
        "reason": "Resources",
        "first_submitted_at": START,
    }
    return PendingJobs.model_validate(defaults | asked)


def running(
    job_id: str,
    *nodes: str,
    cpus: int = 1,
    uid: int = 20001,
    since: float = 0.0,
    gres: dict[str, dict[str, int]] | None = None,
) -> RunningJob:
    return RunningJob(job_id=job_id, uid=uid, user="ada", nodes=nodes, cpus=cpus, started_at=at(since), gres=gres or {})


def node(name: str, *states: str, used: int = 0, idle_for: float | None = 500.0, reason: str = "") -> NodeState:
    """A node of the shape that its name begins with, such as `general-small-1`; by default idle."""
    shape = WITH_GPUS[name.rpartition("-")[0]]
    return NodeState(
        name=name,
        states=states or (("MIXED",) if used else ("IDLE",)),
        cpus=shape.vcpu,
        cpus_allocated=used,
        memory_mib=shape.memory_mib,
        memory_allocated_mib=used * shape.memory_mib // shape.vcpu,
        gres={f"gpu:{shape.gpu_model}": shape.gpu_count} if shape.gpu_count else {},
        features=shape.worker.features,
        reason=reason,
        idle_since=None if used or idle_for is None else at(NOW - idle_for),
        registered_at=START,
    )


def worker(name: str, phase: WorkerPhase = "running", *, started: float = 0.0, leaves: float | None = None) -> Worker:
    return Worker(
        name=name,
        shape=name.rpartition("-")[0],
        phase=phase,
        started_at=at(started),
        leaves_by=None if leaves is None else at(leaves),
    )


def snapshot(
    pending: tuple[PendingJobs, ...] | None = (),
    runs: tuple[RunningJob, ...] | None = (),
    nodes: tuple[NodeState, ...] | None = (),
    *,
    taken: float = NOW,
) -> QueueSnapshot:
    return QueueSnapshot(generation=int(taken) + 1, taken_at=at(taken), pending=pending, running=runs, nodes=nodes)


def edge(
    *workers: Worker,
    applied: int = 0,
    heard: float = NOW,
    stuck: tuple[Stuck, ...] | None = None,
    sees_machines: bool = False,
) -> Edge:
    """An edge that has carried out the desired state with this generation and fence 0."""
    heartbeat = Heartbeat(
        generation=1,
        sent_at=at(heard),
        agent_version="1",
        substrate="process",
        applied=Applied(generation=applied, fence=0, applied_at=at(heard)),
        workers=workers,
        stuck=stuck,
        node_claims=() if sees_machines else None,
    )
    return Edge().after(heartbeat, at(heard))


def observation(
    shot: QueueSnapshot,
    there: Edge | None = None,
    *,
    now: float = NOW,
    catalogue: Catalogue = CATALOGUE,
    **policy: Any,
) -> Observation:
    return Observation(binding(catalogue, **policy), shot, there if there is not None else edge(), at(now))


def state(*targets: ShapeTarget, **fields: Any) -> FleetState:
    return FleetState(decided_at=START, targets=targets, **fields)


def target(shape: str, replicas: int, *victims: str) -> ShapeTarget:
    return ShapeTarget(shape=shape, worker=WITH_GPUS[shape].worker, replicas=replicas, victims=victims)
