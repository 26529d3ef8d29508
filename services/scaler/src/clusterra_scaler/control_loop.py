"""One cluster's control loop: observe, decide, record the decision, then send Slurm its requests."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm_nodes import Undrain
from clusterra_runtime import trace
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from clusterra_runtime.nats.client import Client
from prometheus_client import Counter, Histogram

from clusterra_scaler.cluster_metrics import ClusterMetrics
from clusterra_scaler.decisions.lanes import DecisionLanes, size
from clusterra_scaler.decisions.log import DecisionLog
from clusterra_scaler.decisions.logger import DecisionLogger
from clusterra_scaler.decisions.record import DecisionInputs, DecisionOutput, DecisionRecord
from clusterra_scaler.decisions.spans import decision_span
from clusterra_scaler.desired_publisher import DesiredPublisher
from clusterra_scaler.explain.estimate import EstimateInputs
from clusterra_scaler.explain.estimate_service import EstimateService
from clusterra_scaler.explain.purchase_alternatives import decided_and_published
from clusterra_scaler.explain.service import ExplanationService
from clusterra_scaler.fleets import Fleets, Recorded
from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Edge, Observation, only_busy, same_queue
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.snapshot_age import SnapshotAge
from clusterra_scaler.planner.placement.fleet_assignment import BATCHING
from clusterra_scaler.requests import SlurmRequests

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
"""Interval between decisions while only the passing of time can change them, in a replica with few clusters.
A new input is decided on at once."""
BUSY_TICK_SECONDS = 5.0
"""The same while nothing waits and all workers run jobs."""

STORE_HISTORY_SECONDS = 600.0
"""Minimum interval between writes of the learned run times, which the next scaler starts from."""

DECIDE_SECONDS = Histogram(
    "clusterra_scaler_decide_seconds",
    "Time to plan one decision, by the largest number of jobs and nodes that a snapshot of the size may have",
    ("size",),
    buckets=LATENCY_BUCKETS_SECONDS,
)
PUBLISH_SECONDS = Histogram(
    "clusterra_scaler_publish_seconds",
    "Time from the arrival of an input to the publication of the desired state",
    buckets=LATENCY_BUCKETS_SECONDS,
)
DECISIONS = Counter("clusterra_scaler_decisions_total", "Decisions, by whether they changed anything", ("outcome",))


@dataclass(frozen=True, slots=True)
class FencedLease:
    """The lease under which a control loop decides."""

    fence: int
    """The fencing token of all its writes."""
    is_held: Callable[[], bool]
    """Whether the lease is held at this moment."""


class ControlLoop:
    """Decides for one cluster for as long as this replica holds the lease.

    Inputs are coalesced: the latest snapshot and the latest heartbeat count. Decisions are made one after the other.
    Each starts from the state that the previous one left, and reads nothing from the store. Requests to Slurm run
    concurrently with decisions, and their answers are inputs. Drains and undrains are in the record before Slurm is
    asked.

    In shadow mode each decision starts from the record as it is. Nothing of it is written, published or requested.
    """

    def __init__(
        self,
        ref: ClusterRef,
        binding: ClusterBinding,
        lease: FencedLease,
        fleets: Fleets,
        client: Client,
        lanes: DecisionLanes,
        decision_log: DecisionLog | None = None,
    ) -> None:
        self._ref = ref
        self._binding = binding
        self._lease = lease
        self._fleets = fleets
        self._client = client
        self._lanes = lanes
        self._decision_log = decision_log
        self._snapshot: QueueSnapshot | None = None
        self._snapshot_age = SnapshotAge()
        self._edge = Edge()
        self._observation_history = ObservationHistory()
        self._run_history = RunHistory()
        self._run_history_stored_at = time.monotonic()
        self._input_arrived = asyncio.Event()
        self._input_arrived_at = 0.0
        self._traceparent: str | None = None
        self._logger = DecisionLogger()
        self._requests = SlurmRequests(
            client, ref, may_send=lambda: lease.is_held() and not self._shadow, on_answer=self._wake
        )
        self._publisher = DesiredPublisher(ref, client, lease.is_held)
        self._metrics = ClusterMetrics(ref)
        self._explanations = ExplanationService(ref)
        self._deciding = asyncio.Lock()
        self._estimates = EstimateService(ref, lanes, self._deciding, decision_log, lambda: self._binding.bound_at)
        self._busy = False
        """Whether the last decision found nothing that waits, and that all workers run jobs."""
        self._gathering = False
        """Whether jobs wait to be bought for together, so that time alone changes the decision."""

    def bind(self, binding: ClusterBinding) -> None:
        """Use a changed binding from the next decision on."""
        self._binding = binding
        self._wake()

    def on_snapshot(self, snapshot: QueueSnapshot) -> None:
        """Use a snapshot from the next decision on. One older than the last is ignored.

        While nothing waits and all workers run jobs, one that repeats the last is no reason to decide now.
        """
        before = self._snapshot
        if before is None or snapshot.generation > before.generation:
            self._snapshot = snapshot
            self._snapshot_age = self._snapshot_age.after(snapshot, now(), time.monotonic())
            self._metrics.on_snapshot(snapshot)
            self._traceparent = trace.current()
            if not (self._busy and before is not None and same_queue(before, snapshot)):
                self._wake()

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Use a heartbeat from the next decision on. One older than the last is ignored.

        One that repeats the last is no reason to decide now.
        """
        edge = self._edge.after(heartbeat, now())
        if edge is not self._edge:
            is_news = edge.is_news_after(self._edge, now())
            self._edge = edge
            self._metrics.on_heartbeat(heartbeat)
            if is_news:
                self._wake()

    async def run(self) -> None:
        """Decide until cancelled. Raises what `Fleets` raises: what the record holds is unknown from then on."""
        names = structlog.contextvars.bound_contextvars(tenant=self._ref.tenant, cluster=self._ref.cluster)
        with names, self._lanes.ticks.shared():
            try:
                self._run_history = await self._fleets.history(self._ref)
                async with self._explanations.serving(self._client), self._estimates.serving(self._client):
                    while True:
                        await self._decide_in_mode(shadow=self._shadow)
            finally:
                await self._publisher.close()
                await self._requests.close()

    def remove_metrics(self) -> None:
        """Stop exporting the metrics of this cluster: no snapshot or heartbeat is passed on any more."""
        self._metrics.remove()

    @property
    def _shadow(self) -> bool:
        return self._binding.policy.mode == "shadow"

    async def _decide_in_mode(self, *, shadow: bool) -> None:
        """Start from the record and decide until the cluster's mode changes."""
        begin = self._fleets.read if shadow else self._fleets.take_over
        recorded = await begin(self._ref, self._lease.fence)
        self._observation_history = ObservationHistory.after_takeover(recorded.state)
        if recorded.version and not shadow:
            await self._publisher.publish(recorded.state)
        log.info("fleet_taken_over", generation=recorded.state.generation, fence=self._lease.fence, shadow=shadow)
        first = True
        while self._shadow == shadow:
            # Inputs that arrive while others have their turns are coalesced too.
            await self._lanes.turns.take()
            self._input_arrived.clear()
            if self._snapshot is not None:
                # A decision belongs to the trace of the snapshot it is made from.
                with trace.extract({TRACEPARENT: self._traceparent} if self._traceparent else None):
                    recorded = await self._decide(recorded, self._snapshot, shadow=shadow, first=first)
                first = False
            await self._wait(recorded)

    def _wake(self) -> None:
        if not self._input_arrived.is_set():
            self._input_arrived_at = time.perf_counter()
            self._input_arrived.set()

    async def _decide(self, recorded: Recorded, snapshot: QueueSnapshot, *, shadow: bool, first: bool) -> Recorded:
        """Make one decision and act on it. The first decision under a lease or in a mode is always logged."""
        began = now()
        arrived_at = self._input_arrived_at
        age_seconds = self._snapshot_age.seconds(time.monotonic())
        observation = Observation(self._binding, snapshot, self._edge, began, age_seconds)
        self._metrics.on_observation(observation)
        state = self._with_answers(recorded).state
        observation_history, run_history = self._observation_history, self._run_history

        def compute() -> tuple[Decision, Decision]:
            with DECIDE_SECONDS.labels(size(snapshot)).time():
                return decided_and_published(observation, state, observation_history, run_history, shadow=shadow)

        # Inputs that arrive meanwhile are coalesced: the next decision takes the latest.
        async with self._deciding:
            # The logs keep `decision`, which a replay makes again; the event has `published`, with alternatives.
            decision, published = await self._lanes.run(snapshot, compute)
        self._observation_history = decision.observation_history
        DECISIONS.labels("shadow" if shadow else "changed" if decision.changes else "same").inc()
        if shadow:
            worth_logging = self._logger.is_new_intent(decision) or first
            if worth_logging:
                self._logger.decided(decision, shadow=True)
        else:
            must_store = decision.state.must_be_stored_after(recorded.state)
            worth_logging = first or bool(decision.changes) or must_store
            with decision_span(self._ref, snapshot, decision, began):
                recorded = await self._carry_out(recorded, published, arrived_at)
                self._metrics.on_decision(decision, snapshot)
                if worth_logging:
                    self._logger.decided(decision)
        self._gathering = decision.plan is not None and any(each.reason == BATCHING for each in decision.plan.unmet)
        self._explanations.on_decision(observation, decision, run_history, shadow=shadow)
        if decision.plan is not None:
            self._estimates.on_decision(
                EstimateInputs(
                    observation=observation,
                    state=state if shadow else decision.state,
                    observation_history=decision.observation_history,
                    run_history=run_history,
                    plan=decision.plan,
                    shadow=shadow,
                )
            )
        if worth_logging and self._decision_log is not None:
            given = DecisionInputs(observation, state, observation_history, self._run_history.counts)
            self._decision_log.append(DecisionRecord(self._ref, shadow, given, DecisionOutput.of(decision)))
        self._logger.unmet(decision)
        self._logger.unknown_reasons(snapshot)
        await self._store_run_history()
        return recorded

    async def _store_run_history(self) -> None:
        if self._run_history.unsaved and time.monotonic() - self._run_history_stored_at >= STORE_HISTORY_SECONDS:
            await self._fleets.store_history(self._ref, self._run_history)
            self._run_history.unsaved = False
            self._run_history_stored_at = time.monotonic()

    async def _carry_out(self, recorded: Recorded, decision: Decision, arrived_at: float) -> Recorded:
        """Record the decision, publish a changed desired state, then send the requests to Slurm."""
        if decision.changes:
            recorded = await self._fleets.record_decision(self._ref, recorded, decision)
            await self._publisher.publish(recorded.state)
            PUBLISH_SECONDS.observe(time.perf_counter() - arrived_at)
        elif decision.state.must_be_stored_after(recorded.state):
            recorded = await self._fleets.record_state(self._ref, recorded, decision.state)
        else:
            recorded = replace(recorded, state=decision.state)
        self._requests.send(decision.actions)
        return recorded

    def _with_answers(self, recorded: Recorded) -> Recorded:
        """The state after Slurm's answers to the requests sent so far."""
        state = recorded.state
        for answer in self._requests.take_answers():
            node = answer.action.node
            if answer.accepted_at is not None:
                state = state.with_drain(node, answer.accepted_at)
            elif isinstance(answer.action, Undrain) and answer.outcome == "lost":
                self._observation_history = self._observation_history.with_lost_undrain(node)
            elif isinstance(answer.action, Undrain) and node not in self._observation_history.lost_undrains:
                state = state.with_undrain_settled(node)
        return replace(recorded, state=state)

    async def _wait(self, recorded: Recorded) -> None:
        """Wait for an input, and at most for a tick while the passing of time may change the decision."""
        state, nodes = recorded.state, self._snapshot.nodes if self._snapshot is not None else None
        wanted = any(target.replicas or target.victims for target in state.targets)
        quiescent = not (nodes or self._edge.workers or self._gathering or wanted)
        unsettled = self._gathering or state.victims or state.drains or state.undrains or state.taken_back
        self._busy = self._snapshot is not None and not unsettled and only_busy(self._snapshot, self._edge)
        tick = self._lanes.ticks.interval(BUSY_TICK_SECONDS if self._busy else TICK_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if quiescent else tick):
                await self._input_arrived.wait()
