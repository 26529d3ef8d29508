"""Simulates the scaler between the models of Slurm and the edge, with faults on the way between them."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Down, Drain, SetExtra, Undrain
from clusterra_contracts.scale import DesiredState
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Edge, Observation, busy_nodes
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.scale_down.drain import Action
from edge_model import FAST_EDGE, BootFaults, EdgeBehaviour, EdgeModel
from fleet_examples import at
from slurm_model import SLURMD_TIMEOUT_SECONDS, Job, SlurmModel

VALID_SECONDS = 15.0
"""For how long a snapshot is valid."""
SETTLED_AFTER = 2
"""Maximum number of further generations from the same observation."""


@dataclass(frozen=True)
class Faults:
    """The probability of each fault: per second, per message, or per list."""

    null_list: float = 0.0
    torn_snapshot: float = 0.0
    """Jobs start or end between the reading of jobs and of nodes."""
    lost_snapshot: float = 0.0
    silence: float = 0.0
    """The proxy falls silent: no snapshot arrives for 20 to 90 s."""
    lost_heartbeat: float = 0.0
    lost_desired: float = 0.0
    late_desired: float = 0.0
    """The edge receives a desired state some seconds late."""
    failed_call: float = 0.0
    """A request has no answer. A drain may have happened; an undrain may still happen up to half a minute later."""
    crash: float = 0.0
    """A worker dies."""
    resumed: float = 0.0
    """An operator resumes a drained node."""
    lost_drains: float = 0.0
    """Slurm loses all drains: slurmctld restarts from an older state."""
    held: float = 0.0
    """The edge is held up for some seconds, at each of its steps."""
    notice: float = 0.0
    """A worker gets an interruption notice, and loses its machine soon after."""
    boots: BootFaults = field(default_factory=BootFaults)
    takeover: float = 0.0
    """Another scaler takes over."""


class World:
    """Runs in steps of one second, and asserts the invariants in each step."""

    def __init__(
        self,
        jobs: list[Job],
        binding: ClusterBinding,
        random: Random,
        faults: Faults,
        edge: EdgeBehaviour = FAST_EDGE,
        boot_p99_seconds: float | None = None,
    ) -> None:
        """`boot_p99_seconds`: the stored provisioning latency of every shape, if there is one."""
        self.binding = binding
        self.random = random
        self.faults = faults
        self.second = 0
        self.edge = EdgeModel(random, edge, lambda: self.stored.desired(), lambda name: self.slurm.jobs_on(name))
        self.slurm = SlurmModel(jobs, random, self.edge.serves)
        self.removed = 0
        self.taken_back = 0
        """Victims that the scaler has taken back."""
        self.longest_idle_seconds = 0
        self.idle_usd = 0.0
        """What workers have cost while they ran no job, from the launch of their machines."""
        self.opened: dict[str, int] = {}
        """For each shape, when its circuit breaker opened first."""
        learned = (
            {} if boot_p99_seconds is None else {shape.name: boot_p99_seconds for shape in binding.catalogue.shapes}
        )
        self.state = self.stored = FleetState.initial(at(0)).model_copy(update={"boot_p99_seconds": learned})
        self.takeovers = 0
        self._desired_in_flight: list[tuple[int, DesiredState]] = []
        self._observation_history = ObservationHistory.after_takeover(self.state)
        self._history = RunHistory()
        self._snapshot: QueueSnapshot | None = None
        self._silent_until = 0
        self.stale_decisions = 0
        self._edge_report = Edge()
        self._requests_in_flight: list[tuple[int, Action]] = []
        self._late_undrains: list[tuple[int, str]] = []
        self.last_decision: Decision | None = None

    def run(self, trouble_seconds: int, at_most_seconds: int) -> None:
        """Run with faults at first and then without, until all jobs have run and no worker or record is left."""
        last_submit = self.slurm.jobs[-1].submitted
        while self.second < at_most_seconds and (self.second <= last_submit or not self._settled()):
            if self.second == trouble_seconds:
                self.faults = Faults()
            self._step()
        waiting = [job.job_id for job in self.slurm.jobs if not job.done]
        assert not waiting, f"these jobs never ran: {waiting}; {self.last_decision and self.last_decision.plan}"
        assert not self.edge.alive, f"these workers are left: {self.edge.alive}"
        assert not self.slurm.nodes, f"these records are left: {list(self.slurm.nodes)}"
        assert not self.state.victims

    def _settled(self) -> bool:
        jobs_done = all(job.done for job in self.slurm.jobs)
        return jobs_done and not self.edge.alive and not self.slurm.nodes and not self.state.victims

    def _step(self) -> None:
        for pod in self.edge.live(self.second, self.faults.crash, self.faults.notice):
            self.slurm.register(pod.name, pod.spec, self.second, short=pod.short)
        self._undo_drains()
        self._notice_dead_nodes()
        self.slurm.progress(self.second)
        self.slurm.schedule(self.second)
        self._receive_reports()
        # A job may start between a snapshot and the decision that is made from it.
        self.slurm.schedule(self.second)
        if self._snapshot is not None:
            self._decide(self._snapshot)
        self._deliver_requests()
        self.slurm.schedule(self.second)
        self._apply()
        self.second += 1

    def _undo_drains(self) -> None:
        """Others undo drains, also those of victims."""
        if self.faults.lost_drains and self._happens(self.faults.lost_drains):
            self.slurm.undo_drains(list(self.slurm.nodes))
        if self.faults.resumed:
            self.slurm.undo_drains([name for name in self.slurm.nodes if self._happens(self.faults.resumed)])

    def _notice_dead_nodes(self) -> None:
        for name, record in self.slurm.nodes.items():
            pod = self.edge.pods.get(name)
            died = self.edge.taken.get(name) if pod is None else pod.died
            stopped_in_order = pod is None and died is None
            if stopped_in_order or (died is not None and self.second - died >= SLURMD_TIMEOUT_SECONDS):
                record.down = True

    def _receive_reports(self) -> None:
        snapshot = self._read_snapshot()
        if self.faults.silence and self.second >= self._silent_until and self._happens(self.faults.silence):
            self._silent_until = self.second + self.random.randint(20, 90)
        if self.second >= self._silent_until and not self._happens(self.faults.lost_snapshot):
            self._snapshot = snapshot
        heartbeat = self.edge.heartbeat(self.second, listed=not self._happens(self.faults.null_list))
        if self.edge.held_until <= self.second and not self._happens(self.faults.lost_heartbeat):
            self._edge_report = self._edge_report.after(heartbeat, at(self.second))

    def _read_snapshot(self) -> QueueSnapshot:
        nodes_first, torn = self.random.random() < 0.5, self._happens(self.faults.torn_snapshot)
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
            valid_seconds=VALID_SECONDS,
            pending=None if self._happens(self.faults.null_list) else pending,
            running=None if self._happens(self.faults.null_list) else running,
            nodes=None if self._happens(self.faults.null_list) else nodes,
        )

    def _decide(self, snapshot: QueueSnapshot) -> None:
        if self._happens(self.faults.takeover):
            self._take_over()
        observation = Observation(self.binding, snapshot, self._edge_report, at(self.second))
        self._history.observe(snapshot)
        decision = decide(observation, self.state, self._observation_history, self._history)
        assert_decision_invariants(observation, self.state, decision, self._history)
        self.stale_decisions += observation.snapshot_is_stale
        startable = not any(job.never for job in self.slurm.jobs)
        assert not (startable and decision.state.request_breakers), "jobs are held back that Slurm would start"
        for breaker in decision.state.breakers:
            self.opened.setdefault(breaker.shape, self.second)
        self.taken_back += len(decision.state.taken_back.keys() & self.state.victims)
        self.state, self._observation_history, self.last_decision = (
            decision.state,
            decision.observation_history,
            decision,
        )
        if decision.changes or decision.state.must_be_stored_after(self.stored):
            self._record()
        if not self._requests_in_flight:
            self._requests_in_flight = [
                (self.second + self.random.choice([0, 0, 1, 3]), action) for action in decision.actions
            ]

    def _take_over(self) -> None:
        """Another scaler takes over: the requests in flight may still arrive, and their answers are lost."""
        self._late_undrains += [
            (moment, call.node) for moment, call in self._requests_in_flight if isinstance(call, Undrain)
        ]
        self._requests_in_flight = []
        self.takeovers += 1
        self.state = self.stored.under_new_lease(self.stored.fence + 1, at(self.second))
        self._observation_history = ObservationHistory.after_takeover(self.state)
        self._history = RunHistory(self._history.counts)
        self._record()

    def _record(self) -> None:
        published = self.state.generation > self.stored.generation
        self.stored = self.state
        if published and not self._happens(self.faults.lost_desired):
            delay = self.random.randint(1, 6) if self._happens(self.faults.late_desired) else 0
            self._desired_in_flight.append((self.second + delay, self.state.desired()))

    def _deliver_requests(self) -> None:
        for moment, name in self._late_undrains:
            if moment <= self.second:
                self.slurm.undrain(name)
        self._late_undrains = [late for late in self._late_undrains if late[0] > self.second]
        due = [action for moment, action in self._requests_in_flight if moment <= self.second]
        self._requests_in_flight = [call for call in self._requests_in_flight if call[0] > self.second]
        for action in due:
            self._carry_out(action, failed=self._happens(self.faults.failed_call))

    def _carry_out(self, action: Action, *, failed: bool) -> None:
        match action:
            case Drain(node=name) if name in self.slurm.nodes:
                if not failed or self.random.random() < 0.5:
                    self.slurm.drain(name, action.reason)
                if not failed:
                    self.state = self.state.with_drain(name, at(self.second))
            case Undrain(node=name) if failed:
                self._observation_history = self._observation_history.with_lost_undrain(name)
                self._late_undrains.append((self.second + self.random.randint(0, 30), name))
            case Undrain(node=name):
                self.slurm.undrain(name)
                if name not in self._observation_history.lost_undrains:
                    self.state = self.state.with_undrain_settled(name)
            case SetExtra(node=name, extra=extra) if not failed:
                self.slurm.set_extra(name, extra)
            case Down(node=name) if not failed:
                assert not self.edge.serves(name), f"{name} is set down although it serves"
                self.slurm.down(name)
            case DeleteNode(node=name) if not failed:
                self.slurm.delete(name)

    def _apply(self) -> None:
        for moment, desired in self._desired_in_flight:
            if moment <= self.second:
                self.edge.receive(desired)
        self._desired_in_flight = [each for each in self._desired_in_flight if each[0] > self.second]
        if self.stored.generation and self.random.random() < 0.2:
            self.edge.receive(self.stored.desired())  # it rereads the last one from time to time
        for pod in self.edge.apply(self.second, self.faults.boots, self.faults.held):
            running = self.slurm.jobs_on(pod.name)
            assert not running, f"{pod.name} is removed under the running jobs {running}"
            assert pod.name in self.stored.victims, f"{pod.name} is removed although it is no victim any more"
            self.slurm.end_at_removal(pod.name, answers=not self._happens(0.2))
            self.removed += 1
        self._assert_limits()
        self._measure_idle()

    def _assert_limits(self) -> None:
        """All present workers count against the limits, also those being removed."""
        policy = self.binding.policy
        count_by_shape = Counter(pod.shape for pod in self.edge.alive)
        assert count_by_shape.total() <= policy.max_workers, "more workers than the limit of the cluster"
        for shape, most in policy.most.items():
            assert count_by_shape[shape] <= most, f"more workers than the limit of {shape}"
        usd_per_hour = sum(
            count * self.binding.catalogue[shape].usd_per_hour for shape, count in count_by_shape.items()
        )
        assert policy.usd_per_hour is None or usd_per_hour <= policy.usd_per_hour + 1e-6, "the budget is exceeded"

    def _measure_idle(self) -> None:
        """Measure how long workers serve without a job, since their last job or since they began to serve."""
        for pod in self.edge.pods.values():
            if pod.machine is not None and not self.slurm.jobs_on(pod.name):
                self.idle_usd += self.binding.catalogue[pod.shape].usd_per_hour / 3600
            if pod.phase != "running" or self.slurm.jobs_on(pod.name):
                pod.idle_since = None
            elif pod.idle_since is None:
                pod.idle_since = self.second
            else:
                self.longest_idle_seconds = max(self.longest_idle_seconds, self.second - pod.idle_since)

    def _happens(self, probability: float) -> bool:
        return self.random.random() < probability


def assert_decision_invariants(
    observation: Observation, before: FleetState, decision: Decision, history: RunHistory
) -> None:
    """Assert what holds for every single decision."""
    after = decision.state
    _assert_no_victim_is_in_use(observation, after)
    assert after.generation == before.generation + bool(decision.changes)
    if (observation.now - observation.snapshot.taken_at).total_seconds() > VALID_SECONDS:
        assert (after, decision.actions) == (before, ()), "something is decided from a stale snapshot"
    again = decide(replace(observation), after, decision.observation_history, history)
    if observation.binding.policy.name == "packing" or after.breakers:
        # At a limit, or when a shape is tried again, a decision may enable a better one; then it is stable.
        more = 0
        while again.changes and more < SETTLED_AFTER:
            again = decide(replace(observation), again.state, again.observation_history, history)
            more += 1
    assert not again.changes, f"the same inputs gave another generation: {again.changes}"
    if not observation.complete:
        assert after.victims <= before.victims, "a removal is decided although a list could not be read"
        assert not [action for action in decision.actions if isinstance(action, Drain)]
        for target in before.targets:
            kept = after.target(target.shape)
            assert kept is not None
            assert kept.replicas >= target.replicas, "a target is lowered although a list could not be read"


def _assert_no_victim_is_in_use(observation: Observation, after: FleetState) -> None:
    """Assert that no victim of the edge's is shown as not drained or busy."""
    if not observation.complete:
        return
    active = {worker.name for worker in observation.edge.workers or () if worker.phase in ("booting", "running")}
    victims = {name for target in after.targets for name in target.victims} & active
    busy = busy_nodes(observation.snapshot)
    in_use = [
        node.name
        for node in observation.snapshot.nodes or ()
        if node.name in victims and (not node.draining or node.cpus_allocated or node.name in busy)
    ]
    assert not in_use, f"the victims {in_use} are not drained or busy"
