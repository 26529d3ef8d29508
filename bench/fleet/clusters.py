"""The clusters of the benchmark: their bindings, their jobs and workers at the start, and their records."""

from dataclasses import dataclass

from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.scale import ShapeTarget
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Value
from clusterra_runtime.store.store import Update
from clusterra_scaler.fleet_table import FLEETS, fleet_key
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_state

from fleet.edges import LightEdge
from fleet.queue import Queue, Request
from fleet.recorded import Answers

TENANT = "bench"
SPARE = Shape(name="compute-small", family="compute", size="small", vcpu=4, memory_gib=8, usd_per_hour=0.15)
"""News asks for a worker of this shape."""
NODE = Shape(name="general-large", family="general", size="large", vcpu=16, memory_gib=64, usd_per_hour=0.8)
"""The standing workers have this shape."""
CATALOGUE = Catalogue(shapes=(SPARE, NODE))
JOBS_PER_NODE = 4
STANDING_SECONDS = 10 * 24 * 3600
"""How long the standing jobs have been there: longer than the event stream keeps events, so that they make none now."""
STANDING_LIMIT_MINUTES = 60 * 24 * 60
KINDS = 200
"""Number of different requests of the waiting jobs of the big cluster."""
OPERATOR = SlurmUser(name="clusterra-operator", uid=64031, gid=64031)


@dataclass(frozen=True)
class Size:
    """How many jobs and nodes a cluster stands at."""

    pending: int
    running: int
    nodes: int


def binding(ref: ClusterRef, url: str, key_file: str, nodes: int) -> ClusterBinding:
    """A cluster that may have its standing workers and a few of the spare shape, which leave as soon as they idle."""
    return ClusterBinding(
        name=ref.cluster,
        slurmrestd_url=f"{url}/{ref.cluster}",
        jwt_key=f"file:{key_file}",
        operator=OPERATOR,
        catalogue=CATALOGUE,
        policy=ScalingPolicy(
            idle_seconds=0.0,
            max_workers=nodes + 4,
            most={NODE.name: nodes},
            moves_per_minute=600,
        ),
    )


def standing(ref: ClusterRef, size: Size, answers: Answers, at: int) -> LightEdge:
    """An edge whose nodes are full of running jobs, with the waiting jobs behind them."""
    queue = Queue(answers)
    edge = LightEdge(ref, queue)
    nodes = [queue.nodes[edge.add_running(NODE.name, NODE.worker)] for _ in range(size.nodes)]
    per_node = -(-size.running // size.nodes) if size.nodes else 1
    cpus, memory_mib = NODE.vcpu // per_node, NODE.worker.memory_mib // per_node
    since = at - STANDING_SECONDS
    for number in range(size.running):
        asked = Request(cpus, memory_mib, "general", user_id=20001 + number % 50, limit_minutes=STANDING_LIMIT_MINUTES)
        queue.start(queue.submit(asked, since), nodes[number // per_node], since)
    for number in range(size.pending):
        submit_waiting(queue, number, since)
    # Takes seconds for a long queue, and later only as long as what has changed.
    queue.jobs_size(at)
    return edge


def submit_waiting(queue: Queue, number: int, at: int) -> None:
    """A waiting job of one of the kinds, as large as a quarter of a node at most."""
    kind = number % KINDS
    request = Request(
        cpus=1 + kind % (NODE.vcpu // JOBS_PER_NODE),
        memory_mib=1024 * (1 + kind % 16),
        features="general",
        user_id=20001 + kind % 50,
        limit_minutes=60 * (1 + kind % 24),
    )
    queue.submit(request, at)


async def publish(client: Client, store: DynamoDBStore, edge: LightEdge, bound: ClusterBinding) -> None:
    """Write a cluster's record, as a scaler that bought its workers left it, and then its binding."""
    if edge.workers:
        target = ShapeTarget(shape=NODE.name, worker=NODE.worker, replicas=len(edge.workers))
        state = FleetState(generation=1, decided_at=now(), targets=(target,))
        content: dict[str, Value] = {"state": packed_state(state), "fence": 0, "generation": 1}
        await store.write(Update(FLEETS, fleet_key(edge.ref.key), set=content))
    await put_binding(client, edge.ref, bound)
