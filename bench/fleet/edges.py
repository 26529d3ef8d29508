"""Light edges: for each cluster the heartbeats of an agent that carries out its desired state, with no worker behind.

An agent of every cluster would be a process of every cluster. These share one connection, and register a worker's
node in the cluster's queue in place of its slurmd.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Applied, Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import BusUnavailable, Client

from fleet.queue import Queue

BOOT_SECONDS = 1.0
"""From the acceptance of a worker to its registration."""


@dataclass
class LightEdge:
    """One cluster's workers."""

    ref: ClusterRef
    queue: Queue
    workers: dict[str, Worker] = field(default_factory=dict)
    specs: dict[str, WorkerSpec] = field(default_factory=dict)
    applied: Applied | None = None
    _order: tuple[int, int] = (0, 0)
    _numbers: int = 0

    def add_running(self, shape: str, spec: WorkerSpec) -> str:
        """A worker that already runs and is registered, and its name."""
        name = self._add(shape, spec, "running")
        self.queue.register(name, spec, int(time.time()))
        return name

    def apply(self, desired: DesiredState) -> list[str]:
        """Remove the victims and add missing workers. Returns the names of the new ones, which boot."""
        if desired.order <= self._order or desired.targets is None:
            return []
        self._order = desired.order
        started: list[str] = []
        for target in desired.targets:
            for victim in (*target.victims, *target.unregistered):
                if self.workers.pop(victim, None) is not None:
                    self.queue.lose(victim, int(time.time()))
            present = sum(worker.shape == target.shape for worker in self.workers.values())
            started += [self._add(target.shape, target.worker, "booting") for _ in range(target.replicas - present)]
        self.applied = Applied(generation=desired.generation, fence=desired.fence, applied_at=now())
        return started

    def booted(self, name: str) -> None:
        """A worker serves and has registered, unless it was removed before."""
        if (worker := self.workers.get(name)) is not None:
            self.workers[name] = worker.model_copy(update={"phase": "running"})
            self.queue.register(name, self.specs[name], int(time.time()))

    def heartbeat(self) -> Heartbeat:
        """The state of this edge."""
        return Heartbeat(
            generation=time.time_ns() // 1_000_000,
            sent_at=now(),
            agent_version="bench",
            substrate="process",
            applied=self.applied,
            workers=tuple(self.workers.values()),
        )

    def _add(self, shape: str, spec: WorkerSpec, phase: str) -> str:
        self._numbers += 1
        name = f"{shape}-{self._numbers}"
        self.workers[name] = Worker.model_validate({"name": name, "shape": shape, "phase": phase, "started_at": now()})
        self.specs[name] = spec
        return name


class LightEdges:
    """The edges of all clusters without an agent of their own, on one connection."""

    def __init__(self, client: Client, on_registered: Callable[[str], None]) -> None:
        """`on_registered` is called with a cluster's name when new workers of it have registered."""
        self._client = client
        self._on_registered = on_registered
        self.edges: dict[str, LightEdge] = {}
        self.heartbeats = 0

    async def on_desired(self, subject: Subject, desired: DesiredState) -> None:
        """Carry out a desired state, and tell that at once."""
        edge = self.edges.get(subject.ref.cluster)
        if edge is None:
            return
        started = edge.apply(desired)
        await self._beat(edge)
        if started:
            self._client.work(self._boot(edge, started))

    async def run(self) -> None:
        """Send every edge's heartbeat every 5 s, evenly spread, until cancelled."""
        while True:
            began = time.monotonic()
            # Clusters are added meanwhile.
            edges = tuple(self.edges.values())
            for number, edge in enumerate(edges):
                await self._beat(edge)
                due = began + HEARTBEAT_SECONDS * (number + 1) / len(edges)
                await asyncio.sleep(max(due - time.monotonic(), 0))
            await asyncio.sleep(max(began + HEARTBEAT_SECONDS - time.monotonic(), 0.01))

    async def _boot(self, edge: LightEdge, names: list[str]) -> None:
        await asyncio.sleep(BOOT_SECONDS)
        for name in names:
            edge.booted(name)
        await self._beat(edge)
        self._on_registered(edge.ref.cluster)

    async def _beat(self, edge: LightEdge) -> None:
        self.heartbeats += 1
        try:
            await bus.publish(self._client, subjects.heartbeat(edge.ref), edge.heartbeat())
        except BusUnavailable:
            # A heartbeat is repeated anyway.
            return
