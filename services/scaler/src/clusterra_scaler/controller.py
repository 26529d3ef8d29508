"""One cluster's control loop: what is seen, a decision, its record, and what Slurm is then asked to do."""

import asyncio
import time
from contextlib import suppress

import structlog
from clusterra_contracts import subjects
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc import Done
from clusterra_contracts.slurm_rpc import Drain, Drained, Undrain
from clusterra_runtime.client import Client
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from clusterra_runtime.rpc import RpcFailed, call
from clusterra_runtime.store import StoreUnavailable
from prometheus_client import Counter, Histogram

from clusterra_scaler.fleets import Fleets, Recorded
from clusterra_scaler.planner.decision import decide
from clusterra_scaler.planner.retire import Action
from clusterra_scaler.planner.state import Edge, Seen, Sightings

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
"""How often the idle rules are looked at while there are workers; news of any kind is looked at at once."""
RETRY_SECONDS = 1.0
"""Before the store is tried again, and before Slurm is asked again for what it refused."""

DECIDE_SECONDS = Histogram("clusterra_scaler_decide_seconds", "Of planning alone", buckets=LATENCY_BUCKETS_SECONDS)
PUBLISH_SECONDS = Histogram(
    "clusterra_scaler_publish_seconds",
    "From a snapshot's arrival to its desired state in the stream",
    buckets=LATENCY_BUCKETS_SECONDS,
)
REQUESTS = Counter("clusterra_scaler_requests_total", "Requests to Slurm, by outcome", ("action", "outcome"))


class Controller:
    """Decides for one cluster for as long as the lease with this fence is held.

    Inputs are coalesced: the last snapshot and the last heartbeat count. Decisions are made one after the other,
    each from the record that the one before has left; requests to Slurm run beside them and their answers come back
    as inputs. A request that fails changes nothing: the worker is kept, and asked for again.
    """

    def __init__(self, ref: ClusterRef, binding: ClusterBinding, fence: int, fleets: Fleets, client: Client) -> None:
        self._ref = ref
        self._binding = binding
        self._fence = fence
        self._fleets = fleets
        self._client = client
        self._snapshot: QueueSnapshot | None = None
        self._edge = Edge()
        self._sightings = Sightings()
        self._news = asyncio.Event()
        self._drained: list[tuple[str, Drained]] = []
        self._asking: dict[Action, asyncio.Task[None]] = {}
        self._not_before: dict[Action, float] = {}

    def bind(self, binding: ClusterBinding) -> None:
        """Take a changed binding."""
        self._binding = binding
        self._news.set()

    def see_snapshot(self, snapshot: QueueSnapshot) -> None:
        """Take a snapshot; an older one than the last changes nothing."""
        if self._snapshot is None or snapshot.generation > self._snapshot.generation:
            self._snapshot = snapshot
            self._news.set()

    def see_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat; an older one than the last changes nothing."""
        edge = self._edge.hears(heartbeat, now())
        if edge is not self._edge:
            self._edge = edge
            self._news.set()

    async def run(self) -> None:
        """Decide until cancelled. Raises ConditionFailed when somebody else has written: the lease is lost."""
        with structlog.contextvars.bound_contextvars(tenant=self._ref.tenant, cluster=self._ref.cluster):
            try:
                recorded = await self._taken_over()
                while True:
                    try:
                        recorded = await self._step(recorded)
                    except StoreUnavailable as error:
                        log.warning("fleet_not_recorded", reason=str(error))
                        await asyncio.sleep(RETRY_SECONDS)
                        recorded = await self._reread(recorded)
                        continue
                    await self._wait(recorded)
            finally:
                for task in self._asking.values():
                    task.cancel()
                await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _taken_over(self) -> Recorded:
        while True:
            try:
                recorded = await self._fleets.load(self._ref)
                recorded = await self._fleets.take_over(self._ref, recorded, self._fence)
            except StoreUnavailable as error:
                log.warning("fleet_not_read", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                log.info("fleet_taken_over", generation=recorded.state.generation, fence=self._fence)
                return recorded

    async def _reread(self, recorded: Recorded) -> Recorded:
        """After a write without an answer: it may have happened."""
        while True:
            try:
                return await self._fleets.load(self._ref)
            except StoreUnavailable as error:
                log.warning("fleet_not_read", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _step(self, recorded: Recorded) -> Recorded:
        self._news.clear()
        started = time.perf_counter()
        state = recorded.state
        taken, self._drained = self._drained, []
        for node, answer in taken:
            state = state.drained(node, answer.accepted_at)
        if self._snapshot is None:
            return recorded if state is recorded.state else await self._fleets.keep(self._ref, recorded, state)
        seen = Seen(self._binding, self._snapshot, self._edge, now())
        decision = decide(seen, state, self._sightings)
        DECIDE_SECONDS.observe(time.perf_counter() - started)
        try:
            if decision.changes:
                recorded = await self._fleets.decide(self._ref, recorded, decision)
                PUBLISH_SECONDS.observe(time.perf_counter() - started)
                for change in decision.changes:
                    log.info("scale_decided", generation=decision.state.generation, **change.model_dump(mode="json"))
            elif decision.state != recorded.state:
                recorded = await self._fleets.keep(self._ref, recorded, decision.state)
        except StoreUnavailable:
            self._drained = taken + self._drained
            raise
        self._sightings = decision.sightings
        for action in decision.actions:
            self._ask(action)
        return recorded

    async def _wait(self, recorded: Recorded) -> None:
        nodes = self._snapshot.nodes if self._snapshot is not None else None
        quiet = (
            not nodes and not self._edge.workers and not any(t.replicas or t.victims for t in recorded.state.targets)
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(None if quiet else TICK_SECONDS):
                await self._news.wait()

    def _ask(self, action: Action) -> None:
        """Ask Slurm, unless that is being done already or was refused a moment ago."""
        if action in self._asking or time.monotonic() < self._not_before.get(action, 0.0):
            return
        if any(asked.node == action.node for asked in self._asking):
            return
        task = asyncio.create_task(self._request(action))
        self._asking[action] = task
        task.add_done_callback(lambda _: self._asking.pop(action))

    async def _request(self, action: Action) -> None:
        name = action.schema_name.split(".")[1]
        subject = subjects.slurm(self._ref, name)
        try:
            if isinstance(action, Drain):
                self._drained.append((action.node, await call(self._client, subject, action, Drained)))
            else:
                await call(self._client, subject, action, Done)
        except RpcFailed as failed:
            REQUESTS.labels(name, failed.error.kind).inc()
            log.warning("slurm_refused", action=name, node=action.node, reason=failed.error.detail)
            self._not_before[action] = time.monotonic() + RETRY_SECONDS
            if not isinstance(action, Undrain) or failed.error.kind == "unavailable":
                return
        else:
            REQUESTS.labels(name, "ok").inc()
            log.info("slurm_asked", action=name, node=action.node)
        if isinstance(action, Undrain):
            self._sightings = self._sightings.undrain_answered(action.node)
        self._news.set()
