"""One cluster's control loop: what is seen, a decision, its record, and what Slurm is then asked to do."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT
from clusterra_contracts.events import ShapeChange
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm import Undrain
from clusterra_runtime import trace
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from clusterra_runtime.nats.client import Client
from prometheus_client import Counter, Histogram

from clusterra_scaler.decision_log import DecisionLog
from clusterra_scaler.decision_record import Decided, DecisionRecord, Given
from clusterra_scaler.fleets import Fleets, Recorded
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.placement.fleet_assignment import GATHERING
from clusterra_scaler.planner.requests.demand import unknown_reasons
from clusterra_scaler.requests import Requests
from clusterra_scaler.why import Explainer

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
"""How often time alone is looked at while there is anything that it changes; news is looked at once."""

KEEP_HISTORY_SECONDS = 600.0
"""How often what was learned of run times is kept for the next scaler, at most."""

DECIDE_SECONDS = Histogram(
    "clusterra_scaler_decide_seconds", "The planning of one decision", buckets=LATENCY_BUCKETS_SECONDS
)
PUBLISH_SECONDS = Histogram(
    "clusterra_scaler_publish_seconds",
    "From the arrival of news to the desired state in its stream",
    buckets=LATENCY_BUCKETS_SECONDS,
)
DECISIONS = Counter("clusterra_scaler_decisions_total", "Decisions, by whether they changed anything", ("outcome",))

type Wishes = tuple[tuple[ShapeChange, ...], frozenset[str]]
"""What a decision wants done, without the seconds in the reasons of requests: in shadow mode it stays the same."""


class Controller:
    """Decides for one cluster for as long as the lease with this fence is held.

    Inputs are coalesced: the last snapshot and the last heartbeat count. Decisions are made one after the other, each
    from the state that the one before has left, and read nothing from the store. Requests to Slurm run beside them;
    their answers are inputs. What stands with Slurm is in the record before Slurm is asked.

    In shadow mode each decision is made from the record as it is, and nothing of it is written, told or asked for.
    """

    def __init__(
        self,
        ref: ClusterRef,
        binding: ClusterBinding,
        fence: int,
        fleets: Fleets,
        client: Client,
        *,
        holds: Callable[[], bool],
        decision_log: DecisionLog | None = None,
    ) -> None:
        """`holds` tells whether the lease is held at this moment."""
        self._ref = ref
        self._binding = binding
        self._fence = fence
        self._fleets = fleets
        self._snapshot: QueueSnapshot | None = None
        self._edge = Edge()
        self._sightings = ObservationHistory()
        self._history = RunHistory()
        self._history_kept_at = time.monotonic()
        self._news = asyncio.Event()
        self._news_at = 0.0
        self._traceparent: str | None = None
        self._unmet: tuple[str, ...] = ()
        self._unknown_reasons: tuple[str, ...] = ()
        self._client = client
        self._requests = Requests(client, ref, allowed=lambda: holds() and not self._shadow, answered=self._wake)
        self._decision_log = decision_log
        self._explainer = Explainer(ref)
        self._gathering = False
        """Jobs wait until others have come, or time has passed."""
        self._wishes: Wishes | None = None
        """Of the last decision in shadow mode."""

    def bind(self, binding: ClusterBinding) -> None:
        """Take a changed binding."""
        self._binding = binding
        self._wake()

    def see_snapshot(self, snapshot: QueueSnapshot) -> None:
        """Take a snapshot; an older one than the last changes nothing."""
        if self._snapshot is None or snapshot.generation > self._snapshot.generation:
            self._snapshot = snapshot
            self._traceparent = trace.current()
            self._wake()

    def see_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat; an older one than the last changes nothing."""
        edge = self._edge.hears(heartbeat, now())
        if edge is not self._edge:
            self._edge = edge
            self._wake()

    async def run(self) -> None:
        """Decide until cancelled. Raises what `Fleets` raises; then nothing is known of the record any more."""
        with structlog.contextvars.bound_contextvars(tenant=self._ref.tenant, cluster=self._ref.cluster):
            try:
                self._history = await self._fleets.history(self._ref)
                async with self._explainer.serving(self._client):
                    while True:
                        await self._decide_while(shadow=self._shadow)
            finally:
                await self._requests.close()

    @property
    def _shadow(self) -> bool:
        return self._binding.policy.mode == "shadow"

    async def _decide_while(self, *, shadow: bool) -> None:
        """Decide from the record on, until the cluster's mode is the other one."""
        begin = self._fleets.read if shadow else self._fleets.take_over
        recorded = await begin(self._ref, self._fence)
        self._sightings = ObservationHistory.after_takeover(recorded.state)
        log.info("fleet_taken_over", generation=recorded.state.generation, fence=self._fence, shadow=shadow)
        first = True
        while self._shadow == shadow:
            self._news.clear()
            if self._snapshot is not None:
                # A decision belongs to the trace of the snapshot it is made from.
                with trace.extract({TRACEPARENT: self._traceparent} if self._traceparent else None):
                    recorded = await self._decide(recorded, self._snapshot, shadow=shadow, first=first)
                first = False
            await self._wait(recorded)

    def _wake(self) -> None:
        if not self._news.is_set():
            self._news_at = time.perf_counter()
            self._news.set()

    async def _decide(self, recorded: Recorded, snapshot: QueueSnapshot, *, shadow: bool, first: bool) -> Recorded:
        observation = Observation(self._binding, snapshot, self._edge, now())
        state, observation_history = self._with_answers(recorded).state, self._sightings
        self._history.see(snapshot)
        with DECIDE_SECONDS.time():
            decision = decide(observation, state, observation_history, self._history)
        self._sightings = decision.observation_history
        DECISIONS.labels("shadow" if shadow else "changed" if decision.changes else "same").inc()
        if shadow:
            wishes = _wishes(decision)
            news = first or wishes != self._wishes
            self._wishes = wishes
        else:
            news = first or bool(decision.changes) or decision.state.committed != recorded.state.committed
            recorded = await self._do(recorded, decision)
        self._gathering = decision.plan is not None and any(each.reason == GATHERING for each in decision.plan.unmet)
        self._explainer.decided(observation, decision, shadow=shadow)
        if news:
            self._log(decision, shadow=shadow)
            if self._decision_log is not None:
                given = Given(observation, state, observation_history, self._history.counts)
                self._decision_log.note(DecisionRecord(self._ref, shadow, given, Decided.of(decision)))
        self._log_unmet(decision)
        self._log_unknown_reasons(snapshot)
        await self._keep_history()
        return recorded

    async def _keep_history(self) -> None:
        if self._history.changed and time.monotonic() - self._history_kept_at >= KEEP_HISTORY_SECONDS:
            await self._fleets.keep_history(self._ref, self._history)
            self._history.changed = False
            self._history_kept_at = time.monotonic()

    async def _do(self, recorded: Recorded, decision: Decision) -> Recorded:
        """Record it and tell the edge, then ask Slurm."""
        if decision.changes:
            recorded = await self._fleets.decide(self._ref, recorded, decision)
            PUBLISH_SECONDS.observe(time.perf_counter() - self._news_at)
        elif decision.state.committed != recorded.state.committed:
            recorded = await self._fleets.keep(self._ref, recorded, decision.state)
        else:
            recorded = replace(recorded, state=decision.state)
        self._requests.ask(decision.actions)
        return recorded

    def _with_answers(self, recorded: Recorded) -> Recorded:
        state = recorded.state
        for answer in self._requests.answers():
            node = answer.action.node
            if answer.accepted_at is not None:
                state = state.drained(node, answer.accepted_at)
            elif isinstance(answer.action, Undrain) and answer.outcome == "lost":
                self._sightings = self._sightings.undrain_lost(node)
            elif isinstance(answer.action, Undrain) and node not in self._sightings.lost:
                state = state.undrain_settled(node)
        return replace(recorded, state=state)

    async def _wait(self, recorded: Recorded) -> None:
        """Until there is news or, if time alone may change anything, for a tick."""
        nodes = self._snapshot.nodes if self._snapshot is not None else None
        targets = recorded.state.targets
        quiet = not (nodes or self._edge.workers or self._gathering or any(t.replicas or t.victims for t in targets))
        with suppress(TimeoutError):
            async with asyncio.timeout(None if quiet else TICK_SECONDS):
                await self._news.wait()

    def _log(self, decision: Decision, *, shadow: bool) -> None:
        told = {"shadow": True} if shadow else {}
        for change in decision.changes:
            log.info("scale_decided", generation=decision.state.generation, **change.model_dump(mode="json"), **told)
        if shadow and decision.actions:
            log.info("slurm_requests_decided", requests=sorted(_wishes(decision)[1]), **told)

    def _log_unmet(self, decision: Decision) -> None:
        if decision.plan is not None:
            unmet = tuple(f"{', '.join(each.demand.job_ids[:5])}: {each.reason}" for each in decision.plan.unmet)
            if unmet != self._unmet:
                log.info("jobs_without_workers", jobs=unmet[:20], groups=len(unmet))
            self._unmet = unmet

    def _log_unknown_reasons(self, snapshot: QueueSnapshot) -> None:
        unknown = unknown_reasons(snapshot.pending or ())
        if unknown and unknown != self._unknown_reasons:
            log.warning("unknown_job_reasons", reasons=unknown, consequence="no workers are bought for these jobs")
        self._unknown_reasons = unknown


def _wishes(decision: Decision) -> Wishes:
    return decision.changes, frozenset(f"{type(action).__name__} {action.node}" for action in decision.actions)
