"""A small model of Slurm, an edge and the bus between them, for histories of queues with all that may go wrong."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from clusterra_contracts.heartbeat import Applied, Heartbeat, Worker, WorkerPhase
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import Catalogue, Shape, WorkerSpec
from clusterra_contracts.slurm_rpc import DRAIN_REASON_PREFIX, DeleteNode, Drain, Undrain
from clusterra_scaler.planner.decision import Decision, decide
from clusterra_scaler.planner.retire import Action
from clusterra_scaler.planner.state import Edge, FleetState, Seen, Sightings

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
SLURMD_TIMEOUT_SECONDS = 20
BOOT_FAILED_SECONDS = 40


def binding(**policy: float) -> ClusterBinding:
    return ClusterBinding(
        name="c1",
        slurmrestd_url="http://127.0.0.1:6820",
        jwt_key="file:/dev/null",
        operator=SlurmUser(name="clusterra-operator", uid=64031, gid=64031),
        catalogue=CATALOGUE,
        policy=ScalingPolicy.model_validate(policy),
    )


@dataclass
class Job:
    """Sizes are per node; `runs` are seconds."""

    submitted: int
    cpus: int
    memory_mib: int
    runs: int
    nodes: int = 1
    cancelled: int | None = None
    job_id: str = ""
    left: int = 0
    on: tuple[str, ...] = ()
    done: bool = False


@dataclass
class Node:
    """A Slurm node record."""

    name: str
    spec: WorkerSpec
    registered_at: datetime
    idle_since: datetime
    reason: str = ""
    down: bool = False


@dataclass
class Pod:
    """A worker at the edge."""

    name: str
    shape: str
    spec: WorkerSpec
    started_at: datetime
    registers_at: datetime | None
    phase: WorkerPhase = "booting"
    ends_at: datetime | None = None
    died_at: datetime | None = None


@dataclass(frozen=True)
class Faults:
    """How likely, per second or per message, each trouble is."""

    null_list: float = 0.0
    lost_snapshot: float = 0.0
    lost_heartbeat: float = 0.0
    lost_desired: float = 0.0
    failed_call: float = 0.0
    crash: float = 0.0
    never_boots: float = 0.0
    takeover: float = 0.0


@dataclass
class World:
    """Steps of one second. Breaking one of the promises fails an assertion where it happens."""

    jobs: list[Job]
    binding: ClusterBinding
    random: Random
    faults: Faults = field(default_factory=Faults)
    boots_seconds: tuple[int, int] = (1, 15)

    second: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    started: int = 0
    received: DesiredState | None = None
    applied: Applied | None = None
    published: DesiredState | None = None
    snapshot: QueueSnapshot | None = None
    edge: Edge = field(default_factory=Edge)
    stored: FleetState = field(default_factory=lambda: FleetState.undecided(START))
    state: FleetState = field(default_factory=lambda: FleetState.undecided(START))
    sightings: Sightings = field(default_factory=Sightings)
    calls: list[tuple[int, Action]] = field(default_factory=list)
    late_undrains: list[tuple[int, str]] = field(default_factory=list)
    generations: int = 0
    removed: int = 0
    undrained: int = 0
    peak: int = 0
    last: Decision | None = None

    def __post_init__(self) -> None:
        self.jobs.sort(key=lambda job: job.submitted)
        for number, job in enumerate(self.jobs, start=1):
            job.job_id = str(number)

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.second)

    # Slurm

    def free(self, node: Node) -> tuple[int, int]:
        used = [job for job in self.jobs if node.name in job.on]
        return node.spec.cpus - sum(job.cpus for job in used), node.spec.memory_mib - sum(
            job.memory_mib for job in used
        )

    def schedule(self) -> None:
        for job in self.jobs:
            if job.cancelled == self.second and not job.done:
                self.end(job)
            if not job.on or job.done:
                continue
            dead = [name for name in job.on if self.nodes[name].down]
            if dead:
                self.release(job)
            elif all(name in self.pods and not self.pods[name].died_at for name in job.on):
                job.left -= 1
                if job.left <= 0:
                    self.end(job)
        for job in self.waiting():
            fitting = [
                node.name
                for node in self.nodes.values()
                if not node.reason
                and not node.down
                and self.free(node)[0] >= job.cpus
                and self.free(node)[1] >= job.memory_mib
            ]
            if len(fitting) >= job.nodes:
                job.on = tuple(self.random.sample(fitting, job.nodes))
                job.left = job.runs

    def waiting(self) -> list[Job]:
        return [job for job in self.jobs if job.submitted <= self.second and not job.on and not job.done]

    def release(self, job: Job) -> None:
        on, job.on = job.on, ()
        for name in on:
            if name in self.nodes and not any(name in other.on for other in self.jobs):
                self.nodes[name].idle_since = self.now

    def end(self, job: Job) -> None:
        job.done = True
        self.release(job)

    def look(self) -> QueueSnapshot:
        pending = tuple(
            PendingJobs(
                job_ids=(job.job_id,),
                count=1,
                cpus=job.cpus * job.nodes,
                nodes=job.nodes,
                memory_per_node_mib=job.memory_mib,
                partition="main",
                uid=20001,
                reason=self.random.choice(["None", "Resources", "Priority", "ReqNodeNotAvail, UnavailableNodes:"]),
                first_submitted_at=self.now,
            )
            for job in self.waiting()
        )
        running = tuple(
            RunningJob(
                job_id=job.job_id, uid=20001, user="ada", nodes=job.on, cpus=job.cpus * job.nodes, started_at=self.now
            )
            for job in self.jobs
            if job.on
        )
        nodes = tuple(self.node_state(node) for node in self.nodes.values())
        return QueueSnapshot(
            generation=self.second + 1,
            taken_at=self.now,
            pending=None if self.happens(self.faults.null_list) else pending,
            running=None if self.happens(self.faults.null_list) else running,
            nodes=None if self.happens(self.faults.null_list) else nodes,
        )

    def node_state(self, node: Node) -> NodeState:
        cpus, memory = self.free(node)
        busy = cpus != node.spec.cpus
        states = ["DOWN" if node.down else "MIXED" if busy else "IDLE"]
        states += ["DRAIN"] if node.reason else []
        return NodeState(
            name=node.name,
            states=tuple(states),
            cpus=node.spec.cpus,
            cpus_allocated=node.spec.cpus - cpus,
            memory_mib=node.spec.memory_mib,
            memory_allocated_mib=node.spec.memory_mib - memory,
            features=node.spec.features,
            reason=node.reason,
            idle_since=None if busy else node.idle_since,
            registered_at=node.registered_at,
        )

    # the edge

    def boot_and_die(self) -> None:
        for pod in list(self.pods.values()):
            if pod.ends_at is not None and pod.ends_at <= self.now:
                del self.pods[pod.name]
            elif pod.died_at is not None:
                node = self.nodes.get(pod.name)
                if node and (self.now - pod.died_at).total_seconds() >= SLURMD_TIMEOUT_SECONDS:
                    node.down = True
            elif pod.phase == "booting" and pod.registers_at is not None and pod.registers_at <= self.now:
                pod.phase = "running"
                self.nodes[pod.name] = Node(pod.name, pod.spec, self.now, self.now)
            else:
                too_long = (self.now - pod.started_at).total_seconds() > BOOT_FAILED_SECONDS
                if self.happens(self.faults.crash) if pod.phase == "running" else pod.phase == "booting" and too_long:
                    pod.phase, pod.died_at = "failed", self.now
        for name, node in self.nodes.items():
            if name not in self.pods:
                node.down = True

    def apply(self) -> None:
        desired = self.received
        if desired is None or desired.targets is None:
            return
        for target in desired.targets:
            present = [
                pod for pod in self.pods.values() if pod.shape == target.shape and pod.phase in ("booting", "running")
            ]
            victims = [pod for pod in present if pod.name in target.victims]
            for _ in range(target.replicas - (len(present) - len(victims))):
                self.start(target.shape, target.worker)
            for pod in victims:
                on_it = [job.job_id for job in self.jobs if pod.name in job.on]
                assert not on_it, f"{pod.name} is removed under the running jobs {on_it}"
                pod.phase, pod.ends_at = "terminating", self.now + timedelta(seconds=self.random.randint(0, 3))
                self.removed += 1
        self.applied = Applied(generation=desired.generation, fence=desired.fence, applied_at=self.now)
        alive = [pod for pod in self.pods.values() if pod.phase != "failed"]
        self.peak = max(self.peak, len(alive))
        assert len(alive) <= self.binding.policy.max_workers, "more workers than the cluster may have"

    def start(self, shape: str, spec: WorkerSpec) -> None:
        self.started += 1
        name = f"{shape}-{self.started}"
        boots = None
        if not self.happens(self.faults.never_boots):
            boots = self.now + timedelta(seconds=self.random.randint(*self.boots_seconds))
        self.pods[name] = Pod(name, shape, spec, self.now, boots)

    def tell(self) -> Heartbeat:
        workers = tuple(
            Worker(name=pod.name, shape=pod.shape, phase=pod.phase, started_at=pod.started_at)
            for pod in self.pods.values()
            if not (pod.died_at and self.random.random() < 0.3)
        )
        return Heartbeat(
            generation=self.second + 1,
            sent_at=self.now,
            agent_version="1",
            substrate="process",
            applied=self.applied,
            workers=None if self.happens(self.faults.null_list) else workers,
        )

    # the scaler

    def decide(self) -> None:
        if self.snapshot is None:
            return
        if self.happens(self.faults.takeover):
            self.state = self.stored.taken_over(self.stored.fence + 1, self.now)
            self.sightings = Sightings.after_takeover(self.state)
            self.calls.clear()
            self.record_and_publish()
        seen = Seen(self.binding, self.snapshot, self.edge, self.now)
        before = self.state
        decision = decide(seen, before, self.sightings)
        self.last = decision
        self.promise(seen, before, decision)
        self.state, self.sightings = decision.state, decision.sightings
        if decision.changes or decision.state.requests != self.stored.requests:
            self.record_and_publish()
        if not self.calls:
            self.calls = [(self.second + self.random.choice([0, 0, 1, 3]), action) for action in decision.actions]

    def promise(self, seen: Seen, before: FleetState, decision: Decision) -> None:
        again = decide(seen, decision.state, decision.sightings)
        assert not again.changes, f"the same inputs gave another generation: {again.changes}"
        assert decision.state.generation == before.generation + bool(decision.changes)
        snapshot = seen.snapshot
        if not seen.whole:
            assert decision.state.victims <= before.victims
            assert not [action for action in decision.actions if isinstance(action, Drain)]
        if None in (snapshot.pending, snapshot.running, snapshot.nodes) or not seen.edge.listed(seen.now):
            for target in before.targets:
                after = decision.state.target(target.shape)
                assert after is not None
                assert after.replicas >= target.replicas
        self.generations += bool(decision.changes)

    def record_and_publish(self) -> None:
        assert self.state.fence >= self.stored.fence
        self.stored = self.state
        if self.published is None or self.state.desired().order > self.published.order:
            self.published = self.state.desired() if self.state.generation else None
            if not self.happens(self.faults.lost_desired):
                self.received = self.published

    def call(self) -> None:
        for name in [name for at, name in self.late_undrains if at <= self.second]:
            self.undrain(name)
        self.late_undrains = [(at, name) for at, name in self.late_undrains if at > self.second]
        due = [action for at, action in self.calls if at <= self.second]
        self.calls = [(at, action) for at, action in self.calls if at > self.second]
        for action in due:
            node = self.nodes.get(action.node)
            failed = self.happens(self.faults.failed_call)
            match action:
                case Drain() if node and not failed:
                    node.reason = DRAIN_REASON_PREFIX + action.reason
                    self.state = self.state.drained(action.node, self.now)
                case Drain() if node and self.random.random() < 0.5:
                    node.reason = DRAIN_REASON_PREFIX + action.reason
                case Undrain() if failed:
                    self.sightings = self.sightings.undrain_lost(action.node)
                    self.late_undrains.append((self.second + self.random.randint(0, 30), action.node))
                case Undrain():
                    self.undrain(action.node)
                    self.state = self.state.undrain_answered(action.node, self.sightings)
                case DeleteNode() if not failed and not any(action.node in job.on for job in self.jobs):
                    self.nodes.pop(action.node, None)

    def undrain(self, name: str) -> None:
        if name in self.nodes and self.nodes[name].reason.startswith(DRAIN_REASON_PREFIX):
            self.nodes[name].reason = ""
            self.undrained += 1

    # all together

    def happens(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def step(self) -> None:
        self.boot_and_die()
        self.schedule()
        if not self.happens(self.faults.lost_snapshot):
            self.snapshot = self.look()
        if not self.happens(self.faults.lost_heartbeat):
            self.edge = self.edge.hears(self.tell(), self.now)
        # A job may start in the very moment between a look and what is decided from it.
        self.schedule()
        self.decide()
        self.call()
        self.schedule()
        if self.published is not None and self.random.random() < 0.2:
            self.received = self.published
        self.apply()
        self.second += 1

    def settled(self) -> bool:
        return (
            all(job.done for job in self.jobs)
            and not any(pod.phase != "failed" for pod in self.pods.values())
            and not self.nodes
            and not self.state.victims
        )

    def run(self, trouble_seconds: int, at_most_seconds: int) -> None:
        """Trouble at first, then none, until everything has run and nothing is left."""
        last = max(job.submitted for job in self.jobs)
        while self.second < at_most_seconds and (self.second <= last or not self.settled()):
            if self.second == trouble_seconds:
                self.faults = Faults()
            self.step()
        waiting = Counter(job.job_id for job in self.jobs if not job.done)
        assert not waiting, f"never ran: {waiting}; {self.last and self.last.plan and self.last.plan.unmet}"
        alive = [pod.name for pod in self.pods.values() if pod.phase != "failed"]
        assert not alive, f"workers are left: {alive}"
        assert not self.nodes, f"records are left: {list(self.nodes)}"
        assert not self.state.victims
