"""A model of an edge: it carries out the last desired state, and its workers boot, die or never register.

It looks again at the newest desired state right before each removal, and does not remove a worker on which a job runs.
A worker that it removes takes no new job, and ends once its jobs have ended.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from clusterra_contracts.heartbeat import Applied, Heartbeat, Stuck, Worker, WorkerPhase
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from fleet_examples import at

BOOT_FAILED_SECONDS = 40
"""Time after which an edge with `ends_boots` ends a worker whose slurmd does not serve."""
NOTICE_SECONDS = 40
"""Maximum time between an interruption notice and the loss of the machine."""
LAUNCH_SECONDS = 14
"""Maximum time to launch a machine of an available shape."""
HELD_SECONDS = 12
"""Maximum time for which an edge is held up at a step."""


@dataclass(frozen=True)
class BootFaults:
    """The probabilities that the boot of a new worker goes wrong."""

    never: float = 0.0
    """Its slurmd never serves."""
    late: float = 0.0
    """It registers around the time at which the scaler gives it up."""
    deaf: float = 0.0
    """It serves and never registers."""
    late_seconds: tuple[int, int] = (20, 34)
    short: float = 0.0
    """It registers with less than it should have, so that Slurm drains it."""
    short_shapes: frozenset[str] = frozenset()
    """Shapes all workers of which register so."""


@dataclass(frozen=True)
class Outage:
    """An interval, in seconds, in which a shape is unavailable."""

    shape: str
    since: int
    until: int


@dataclass
class Pod:
    """A worker. Its times are in seconds; None for an event that does not happen."""

    name: str
    shape: str
    spec: WorkerSpec
    started: int
    launched_from: int
    """From when on its machine can be launched."""
    boot_seconds: int | None
    """Time from the launch of its machine until its slurmd serves."""
    machine: int | None = None
    """When its machine was launched, which costs from then on."""
    deaf: bool = False
    short: bool = False
    phase: WorkerPhase = "booting"
    ends: int | None = None
    died: int | None = None
    leaves: int | None = None
    """When its machine is taken away, if it has an interruption notice."""
    idle_since: int | None = None
    """Since when it has served without a job."""

    @property
    def serves(self) -> int | None:
        return None if self.machine is None or self.boot_seconds is None else self.machine + self.boot_seconds


@dataclass(frozen=True)
class EdgeBehaviour:
    """How an edge works while nothing goes wrong."""

    boot_seconds: tuple[int, int] = (1, 15)
    """The minimum and maximum time from the launch of a machine until its worker registers."""
    ends_boots: bool = True
    """Whether the edge itself ends workers whose slurmd does not serve."""
    outages: Sequence[Outage] | None = None
    """If set, the edge is one of Kubernetes: a launch takes a while even of an available shape, and the edge reports
    how many workers have no machine."""


FAST_EDGE = EdgeBehaviour()


class EdgeModel:
    """Time passes in `live`; the last desired state is carried out in `apply`."""

    def __init__(
        self,
        random: Random,
        behaviour: EdgeBehaviour,
        look_again: Callable[[], DesiredState],
        jobs_on: Callable[[str], list[str]],
    ) -> None:
        """`look_again` reads the newest desired state, `jobs_on` finds the jobs that run on a worker."""
        self.look_again = look_again
        self._jobs_on = jobs_on
        self._pass: Iterator[Pod | None] | None = None
        """The pass that carries out a desired state; None between two of them."""
        self.held_until = 0
        """Until when the edge does nothing at all."""
        self.held = 0
        """How often it was held up."""
        self.refused = 0
        """Removals refused because a job ran on the worker."""
        self.outdated = 0
        """Removals that a newer desired state had taken back."""
        self.pods: dict[str, Pod] = {}
        self.received: DesiredState | None = None
        self.applied: Applied | None = None
        self.peak = 0
        self._random = random
        self._behaviour = behaviour
        self.started = 0
        self.starts: list[tuple[int, str]] = []
        """The second and the shape of each start of a worker."""
        self.unregistered_removed = 0
        self.taken: dict[str, int] = {}
        """For each interrupted worker, when its machine was taken away."""

    @property
    def alive(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.phase != "failed"]

    def serves(self, name: str) -> bool:
        return name in self.pods and self.pods[name].died is None

    def live(self, second: int, crash: float, notice: float = 0.0) -> list[Pod]:
        """Let one second pass, and return the workers that register in it."""
        registering = []
        for pod in tuple(self.pods.values()):
            if pod.machine is None and pod.launched_from <= second and self._in_stock(pod.shape, second):
                pod.machine = second
            if pod.machine is not None and pod.leaves is None and self._random.random() < notice:
                pod.leaves = second + self._random.randint(0, NOTICE_SECONDS)
            ended = pod.ends is not None and pod.ends <= second and not self._jobs_on(pod.name)
            if ended or (pod.leaves is not None and pod.leaves <= second):
                del self.pods[pod.name]
                if pod.leaves == second:
                    self.taken[pod.name] = second
            elif pod.phase == "booting" and pod.serves is not None and pod.serves <= second:
                pod.phase = "running"
                if not pod.deaf:
                    registering.append(pod)
            elif self._boot_failed(pod, second) or (pod.phase == "running" and self._random.random() < crash):
                pod.phase, pod.died = "failed", second
        return registering

    def apply(self, second: int, faults: BootFaults, held: float) -> list[Pod]:
        """Carry out the last desired state, and return the workers that are removed.

        At every step the edge is held up for some seconds with the probability `held`.
        """
        removed: list[Pod] = []
        if self.held_until > second or self.received is None:
            return removed
        if self._pass is None:
            self._pass = self._carry_out(self.received, second, faults)
        for pod in self._pass:
            if pod is not None:
                pod.phase, pod.ends = "terminating", second + self._random.randint(0, 3)
                removed.append(pod)
            elif held and self._random.random() < held:
                self.held += 1
                self.held_until = second + self._random.randint(1, HELD_SECONDS)
                return removed
        self._pass = None
        self.peak = max(self.peak, len(self.alive))
        return removed

    def _carry_out(self, desired: DesiredState, second: int, faults: BootFaults) -> Iterator[Pod | None]:
        """Yield each worker to remove, and None at each step before."""
        yield None
        leaving: list[tuple[ShapeTarget, Pod]] = []
        for target in desired.targets or ():
            present = [
                pod for pod in self.pods.values() if pod.shape == target.shape and pod.phase in ("booting", "running")
            ]
            unregistered = [pod for pod in present if pod.name in target.unregistered and pod.phase == "booting"]
            victims = [pod for pod in present if pod.name in target.victims] + unregistered
            for _ in range(target.replicas - (len(present) - len(victims))):
                self._start(target.shape, target.worker, second, faults)
            leaving += [(target, pod) for pod in victims]
        refused = False
        for target, pod in leaving:
            yield None
            newest = self.look_again()
            if newest.order != desired.order:
                self.received = newest
                self.outdated += not _names(newest, target.shape, pod.name)
                return
            if self._jobs_on(pod.name):
                self.refused += 1
                refused = True
            elif pod.phase == "booting" or (pod.phase == "running" and pod.name in target.victims):
                self.unregistered_removed += pod.name in target.unregistered
                yield pod
        if not refused:
            self.applied = Applied(generation=desired.generation, fence=desired.fence, applied_at=at(second))

    def receive(self, desired: DesiredState) -> None:
        """Take a desired state, unless a newer one was received before."""
        if self.received is None or desired.order > self.received.order:
            self.received = desired

    def heartbeat(self, second: int, *, listed: bool) -> Heartbeat:
        """Report the workers. A dead one is reported as failed, or not at all."""
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
            stuck=self._stuck() if self._behaviour.outages is not None and listed else None,
            node_claims=() if self._behaviour.outages is not None else None,
        )

    def _boot_failed(self, pod: Pod, second: int) -> bool:
        overdue = pod.phase == "booting" and second - pod.started > BOOT_FAILED_SECONDS
        return overdue and self._behaviour.ends_boots

    def _in_stock(self, shape: str, second: int) -> bool:
        outages = self._behaviour.outages or ()
        return not any(outage.shape == shape and outage.since <= second < outage.until for outage in outages)

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
        boot_seconds = self._random.randint(*(faults.late_seconds if late else self._behaviour.boot_seconds))
        never, deaf = self._random.random() < faults.never, self._random.random() < faults.deaf
        short = shape in faults.short_shapes or (faults.short > 0 and self._random.random() < faults.short)
        launched_from = second if self._behaviour.outages is None else second + self._random.randint(0, LAUNCH_SECONDS)
        machine = second if self._behaviour.outages is None else None
        self.pods[name] = Pod(
            name,
            shape,
            spec,
            second,
            launched_from,
            None if never else boot_seconds,
            machine=machine,
            deaf=deaf,
            short=short,
        )


def _names(desired: DesiredState, shape: str, worker: str) -> bool:
    """Whether a desired state names a worker for removal."""
    targets = [target for target in desired.targets or () if target.shape == shape]
    return any(worker in (*target.victims, *target.unregistered) for target in targets)
