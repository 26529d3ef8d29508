"""A model of an edge: it obeys the last desired state it heard, and its workers boot, die, or never come up."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from clusterra_contracts.heartbeat import Applied, Heartbeat, Stuck, Worker, WorkerPhase
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec
from fleet_examples import at

BOOT_FAILED_SECONDS = 40
"""The edge itself ends a worker whose slurmd never serves, if it is told to."""
NOTICE_SECONDS = 40
"""A machine is taken away so long after the notice at most; sometimes at once."""
LAUNCH_SECONDS = 14
"""A machine takes up to so long although it is to be had."""


@dataclass(frozen=True)
class BootFaults:
    """How likely a new worker is such a one."""

    never: float = 0.0
    """Its slurmd never serves."""
    late: float = 0.0
    """It registers around the time at which it is given up."""
    deaf: float = 0.0
    """It serves and never registers."""
    late_seconds: tuple[int, int] = (20, 34)


@dataclass(frozen=True)
class Outage:
    """No machine of a shape is to be had in these seconds."""

    shape: str
    since: int
    until: int


@dataclass
class Pod:
    """A worker; its times are seconds, None for what does not happen."""

    name: str
    shape: str
    spec: WorkerSpec
    started: int
    launched_from: int
    """When its machine is bought, if there is one."""
    latency: int | None
    """For how long it boots on it."""
    machine: int | None = None
    """Since when it has one, and costs."""
    deaf: bool = False
    phase: WorkerPhase = "booting"
    ends: int | None = None
    died: int | None = None
    leaves: int | None = None
    """When its machine is taken away, once that is announced."""
    idle_since: int | None = None
    """Since when it serves without a job."""

    @property
    def serves(self) -> int | None:
        return None if self.machine is None or self.latency is None else self.machine + self.latency


class EdgeModel:
    """`boots_seconds` are the least and the most that a worker takes to register, once it has a machine.

    With `outages` it is an edge of Kubernetes: machines take a while even if they are to be had, and it tells how many
    workers have none.
    """

    def __init__(
        self,
        random: Random,
        boots_seconds: tuple[int, int],
        *,
        ends_boots: bool = True,
        outages: Sequence[Outage] | None = None,
    ) -> None:
        self.pods: dict[str, Pod] = {}
        self.received: DesiredState | None = None
        self.applied: Applied | None = None
        self.peak = 0
        self._random = random
        self._boots_seconds = boots_seconds
        self.started = 0
        self.starts: list[tuple[int, str]] = []
        """When each worker was started, and of which shape."""
        self.unregistered_removed = 0
        self.taken: dict[str, int] = {}
        """When the machines of workers were taken away."""
        self.outages = outages
        self._ends_boots = ends_boots

    @property
    def alive(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.phase != "failed"]

    def serves(self, name: str) -> bool:
        return name in self.pods and self.pods[name].died is None

    def live(self, second: int, crash: float, notice: float = 0.0) -> list[Pod]:
        """What becomes of the workers in a second; returns those that register now."""
        registering = []
        for pod in tuple(self.pods.values()):
            if pod.machine is None and pod.launched_from <= second and self._in_stock(pod.shape, second):
                pod.machine = second
            if pod.machine is not None and pod.leaves is None and self._random.random() < notice:
                pod.leaves = second + self._random.randint(0, NOTICE_SECONDS)
            if any(end is not None and end <= second for end in (pod.ends, pod.leaves)):
                del self.pods[pod.name]
                if pod.leaves == second:
                    self.taken[pod.name] = second
            elif pod.phase == "booting" and pod.serves is not None and pod.serves <= second:
                pod.phase = "running"
                if not pod.deaf:
                    registering.append(pod)
            elif (self._ends_boots and pod.phase == "booting" and second - pod.started > BOOT_FAILED_SECONDS) or (
                pod.phase == "running" and self._random.random() < crash
            ):
                pod.phase, pod.died = "failed", second
        return registering

    def apply(self, second: int, faults: BootFaults) -> list[Pod]:
        """Carry out what was heard last; returns the workers that are removed."""
        removed: list[Pod] = []
        if self.received is None or self.received.targets is None:
            return removed
        for target in self.received.targets:
            present = [
                pod for pod in self.pods.values() if pod.shape == target.shape and pod.phase in ("booting", "running")
            ]
            unregistered = [pod for pod in present if pod.name in target.unregistered and pod.phase == "booting"]
            victims = [pod for pod in present if pod.name in target.victims] + unregistered
            self.unregistered_removed += len(unregistered)
            for _ in range(target.replicas - (len(present) - len(victims))):
                self._start(target.shape, target.worker, second, faults)
            for pod in victims:
                pod.phase, pod.ends = "terminating", second + self._random.randint(0, 3)
            removed += victims
        self.applied = Applied(generation=self.received.generation, fence=self.received.fence, applied_at=at(second))
        self.peak = max(self.peak, len(self.alive))
        return removed

    def heartbeat(self, second: int, *, listed: bool) -> Heartbeat:
        """Workers that have died are told of as failed, or not at all."""
        workers = tuple(
            Worker(
                name=pod.name,
                shape=pod.shape,
                phase=pod.phase,
                started_at=at(pod.started),
                leaves_by=None if pod.leaves is None else at(pod.leaves),
            )
            for pod in self.pods.values()
            if pod.died is None or self._random.random() < 0.7
        )
        return Heartbeat(
            generation=second + 1,
            sent_at=at(second),
            agent_version="1",
            substrate="process",
            applied=self.applied,
            workers=workers if listed else None,
            stuck=self._stuck() if self.outages is not None and listed else None,
            node_claims=() if self.outages is not None else None,
        )

    def _in_stock(self, shape: str, second: int) -> bool:
        return not any(outage.shape == shape and outage.since <= second < outage.until for outage in self.outages or ())

    def _stuck(self) -> tuple[Stuck, ...]:
        waiting = Counter(pod.shape for pod in self.pods.values() if pod.phase == "booting" and pod.machine is None)
        return tuple(
            Stuck(shape=shape, cause="insufficient_capacity", workers=count, message="Unschedulable")
            for shape, count in waiting.items()
        )

    def _start(self, shape: str, spec: WorkerSpec, second: int, faults: BootFaults) -> None:
        self.started += 1
        self.starts.append((second, shape))
        name = f"{shape}-{self.started}"
        late = self._random.random() < faults.late
        latency = self._random.randint(*(faults.late_seconds if late else self._boots_seconds))
        never, deaf = self._random.random() < faults.never, self._random.random() < faults.deaf
        launched_from = second if self.outages is None else second + self._random.randint(0, LAUNCH_SECONDS)
        machine = second if self.outages is None else None
        self.pods[name] = Pod(
            name, shape, spec, second, launched_from, None if never else latency, machine=machine, deaf=deaf
        )
