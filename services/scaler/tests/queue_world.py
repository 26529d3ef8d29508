"""A scaler's rules between the models of Slurm and an edge, with all that may go wrong on the way."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import DeleteNode, Down, Drain, SetExtra, Undrain
from clusterra_contracts.scale import DesiredState
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.scale_down.drain import Action
from edge_model import BootFaults, EdgeModel, Outage
from fleet_examples import at
from slurm_model import SLURMD_TIMEOUT_SECONDS, Job, SlurmModel

SETTLED_AFTER = 2
"""So many generations more may follow from one look."""


@dataclass(frozen=True)
class Faults:
    """How likely each trouble is: per second, per message, or per list."""

    null_list: float = 0.0
    torn_look: float = 0.0
    """Between the reading of jobs and nodes, jobs start or end."""
    lost_snapshot: float = 0.0
    lost_heartbeat: float = 0.0
    lost_desired: float = 0.0
    late_desired: float = 0.0
    """The edge hears of it only some seconds later."""
    failed_call: float = 0.0
    """A drain may have happened all the same; an undrain may still happen, half a minute later."""
    crash: float = 0.0
    notice: float = 0.0
    """A worker's machine is taken away, soon after that was announced."""
    latency: BootFaults = field(default_factory=BootFaults)
    takeover: float = 0.0


class World:
    """Steps of one second. A broken promise fails an assertion where it is broken."""

    def __init__(
        self,
        jobs: list[Job],
        binding: ClusterBinding,
        random: Random,
        faults: Faults,
        boots_seconds: tuple[int, int] = (1, 15),
        *,
        ends_boots: bool = True,
        boot_p99_seconds: float | None = None,
        outages: Sequence[Outage] | None = None,
    ) -> None:
        """`ends_boots`: the edge gives up on workers by itself; `boot_p99_seconds`: recorded of every shape."""
        self.binding = binding
        self.random = random
        self.faults = faults
        self.second = 0
        self.edge = EdgeModel(random, boots_seconds, ends_boots=ends_boots, outages=outages)
        self.slurm = SlurmModel(jobs, random, self.edge.serves)
        self.removed = 0
        self.longest_idle_seconds = 0
        self.opened: dict[str, int] = {}
        """When the breaker of a shape opened first."""
        learned = (
            {} if boot_p99_seconds is None else {shape.name: boot_p99_seconds for shape in binding.catalogue.shapes}
        )
        self.state = self.stored = FleetState.undecided(at(0)).model_copy(update={"boot_p99_seconds": learned})
        self.takeovers = 0
        self._on_the_way: list[tuple[int, DesiredState]] = []
        self._sightings = ObservationHistory.after_takeover(self.state)
        self._history = RunHistory()
        self._snapshot: QueueSnapshot | None = None
        self._heard = Edge()
        self._calls: list[tuple[int, Action]] = []
        self._late_undrains: list[tuple[int, str]] = []
        self._last: Decision | None = None

    def run(self, trouble_seconds: int, at_most_seconds: int) -> None:
        """Trouble at first, then none, until everything has run and nothing is left."""
        last_submit = self.slurm.jobs[-1].submitted
        while self.second < at_most_seconds and (self.second <= last_submit or not self._settled()):
            if self.second == trouble_seconds:
                self.faults = Faults()
            self._step()
        waiting = [job.job_id for job in self.slurm.jobs if not job.done]
        assert not waiting, f"jobs that never ran: {waiting}; {self._last and self._last.plan}"
        assert not self.edge.alive, f"workers that are left: {self.edge.alive}"
        assert not self.slurm.nodes, f"records that are left: {list(self.slurm.nodes)}"
        assert not self.state.victims

    def _settled(self) -> bool:
        jobs_done = all(job.done for job in self.slurm.jobs)
        return jobs_done and not self.edge.alive and not self.slurm.nodes and not self.state.victims

    def _step(self) -> None:
        for pod in self.edge.live(self.second, self.faults.crash, self.faults.notice):
            self.slurm.register(pod.name, pod.spec, self.second)
        self._notice_dead_nodes()
        self.slurm.progress(self.second)
        self.slurm.schedule(self.second)
        self._listen()
        # A job may start in the very moment between a look and what is decided from it.
        self.slurm.schedule(self.second)
        if self._snapshot is not None:
            self._decide(self._snapshot)
        self._call()
        self.slurm.schedule(self.second)
        self._apply()
        self.second += 1

    def _notice_dead_nodes(self) -> None:
        for name, record in self.slurm.nodes.items():
            pod = self.edge.pods.get(name)
            died = self.edge.taken.get(name) if pod is None else pod.died
            said_goodbye = pod is None and died is None
            if said_goodbye or (died is not None and self.second - died >= SLURMD_TIMEOUT_SECONDS):
                record.down = True

    def _listen(self) -> None:
        looked = self._look()
        if not self._happens(self.faults.lost_snapshot):
            self._snapshot = looked
        heartbeat = self.edge.heartbeat(self.second, listed=not self._happens(self.faults.null_list))
        if not self._happens(self.faults.lost_heartbeat):
            self._heard = self._heard.hears(heartbeat, at(self.second))

    def _look(self) -> QueueSnapshot:
        nodes_first, torn = self.random.random() < 0.5, self._happens(self.faults.torn_look)
        nodes = self.slurm.list_nodes()
        if nodes_first and torn:
            self.slurm.progress(self.second)
            self.slurm.schedule(self.second)
        pending, running = self.slurm.list_pending(self.second), self.slurm.list_running()
        if not nodes_first:
            if torn:
                self.slurm.progress(self.second)
                self.slurm.schedule(self.second)
            nodes = self.slurm.list_nodes()
        return QueueSnapshot(
            generation=self.second + 1,
            taken_at=at(self.second),
            pending=None if self._happens(self.faults.null_list) else pending,
            running=None if self._happens(self.faults.null_list) else running,
            nodes=None if self._happens(self.faults.null_list) else nodes,
        )

    def _decide(self, snapshot: QueueSnapshot) -> None:
        if self._happens(self.faults.takeover):
            self._take_over()
        observation = Observation(self.binding, snapshot, self._heard, at(self.second))
        self._history.see(snapshot)
        decision = decide(observation, self.state, self._sightings, self._history)
        promised(observation, self.state, decision, self._history)
        for breaker in decision.state.breakers:
            self.opened.setdefault(breaker.shape, self.second)
        self.state, self._sightings, self._last = decision.state, decision.observation_history, decision
        if decision.changes or decision.state.committed != self.stored.committed:
            self._record()
        if not self._calls:
            self._calls = [(self.second + self.random.choice([0, 0, 1, 3]), action) for action in decision.actions]

    def _take_over(self) -> None:
        """Requests of the one before are on their way, and their answers lost."""
        self._late_undrains += [(moment, call.node) for moment, call in self._calls if isinstance(call, Undrain)]
        self._calls = []
        self.takeovers += 1
        self.state = self.stored.taken_over(self.stored.fence + 1, at(self.second))
        self._sightings = ObservationHistory.after_takeover(self.state)
        self._history = RunHistory(self._history.counts)
        self._record()

    def _record(self) -> None:
        published = self.state.generation > self.stored.generation
        self.stored = self.state
        if published and not self._happens(self.faults.lost_desired):
            delay = self.random.randint(1, 6) if self._happens(self.faults.late_desired) else 0
            self._on_the_way.append((self.second + delay, self.state.desired()))

    def _call(self) -> None:
        for moment, name in self._late_undrains:
            if moment <= self.second:
                self.slurm.undrain(name)
        self._late_undrains = [late for late in self._late_undrains if late[0] > self.second]
        due = [action for moment, action in self._calls if moment <= self.second]
        self._calls = [call for call in self._calls if call[0] > self.second]
        for action in due:
            self._carry_out(action, failed=self._happens(self.faults.failed_call))

    def _carry_out(self, action: Action, *, failed: bool) -> None:
        match action:
            case Drain(node=name) if name in self.slurm.nodes:
                if not failed or self.random.random() < 0.5:
                    self.slurm.drain(name, action.reason)
                if not failed:
                    self.state = self.state.drained(name, at(self.second))
            case Undrain(node=name) if failed:
                self._sightings = self._sightings.undrain_lost(name)
                self._late_undrains.append((self.second + self.random.randint(0, 30), name))
            case Undrain(node=name):
                self.slurm.undrain(name)
                if name not in self._sightings.lost:
                    self.state = self.state.undrain_settled(name)
            case SetExtra(node=name, extra=extra) if not failed:
                self.slurm.set_extra(name, extra)
            case Down(node=name) if not failed:
                assert not self.edge.serves(name), f"{name} is taken for gone"
                self.slurm.down(name)
            case DeleteNode(node=name) if not failed:
                self.slurm.delete(name)

    def _apply(self) -> None:
        for moment, desired in self._on_the_way:
            if moment <= self.second and (self.edge.received is None or desired.order > self.edge.received.order):
                self.edge.received = desired
        self._on_the_way = [each for each in self._on_the_way if each[0] > self.second]
        if self.stored.generation and self.random.random() < 0.2:
            self.edge.received = self.stored.desired()  # it reads the last one again from time to time
        for pod in self.edge.apply(self.second, self.faults.latency):
            on_it = self.slurm.jobs_on(pod.name)
            assert not on_it, f"{pod.name} is removed under the running jobs {on_it}"
            self.removed += 1
        self._check_caps()
        self._watch_idle()

    def _check_caps(self) -> None:
        """All that are there count, those on their way out too."""
        policy = self.binding.policy
        there = Counter(pod.shape for pod in self.edge.alive)
        assert there.total() <= policy.max_workers, "more workers than the cluster may have"
        assert all(there[shape] <= most for shape, most in policy.most.items()), "more workers than of the shape may be"
        usd_per_hour = sum(count * self.binding.catalogue[shape].usd_per_hour for shape, count in there.items())
        assert policy.usd_per_hour is None or usd_per_hour <= policy.usd_per_hour + 1e-6, "they cost more than they may"

    def _watch_idle(self) -> None:
        """For how long workers have served without a job since their last one, or since they began to serve."""
        for pod in self.edge.pods.values():
            if pod.phase != "running" or self.slurm.jobs_on(pod.name):
                pod.idle_since = None
            elif pod.idle_since is None:
                pod.idle_since = self.second
            else:
                self.longest_idle_seconds = max(self.longest_idle_seconds, self.second - pod.idle_since)

    def _happens(self, probability: float) -> bool:
        return self.random.random() < probability


def promised(observation: Observation, before: FleetState, decision: Decision, history: RunHistory) -> None:
    """What holds of every single decision."""
    after = decision.state
    assert after.generation == before.generation + bool(decision.changes)
    again = decide(replace(observation), after, decision.observation_history, history)
    if observation.binding.policy.name == "packing" or after.breakers:
        # At a bound, or when a shape is tried again, the answer may make room for a better one; then it stands.
        more = 0
        while again.changes and more < SETTLED_AFTER:
            again = decide(replace(observation), again.state, again.observation_history, history)
            more += 1
    assert not again.changes, f"the same inputs gave another generation: {again.changes}"
    if not observation.whole:
        assert after.victims <= before.victims, "something may be removed although a list could not be read"
        assert not [action for action in decision.actions if isinstance(action, Drain)]
        for target in before.targets:
            kept = after.target(target.shape)
            assert kept is not None
            assert kept.replicas >= target.replicas, "fewer are wanted although a list could not be read"
