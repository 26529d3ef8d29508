"""Runs control loops in this process: one for each cluster, started again when it fails."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.queue import last_head, last_snapshot
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.heartbeats import last_heartbeat
from clusterra_runtime.store.store import ConditionFailed, StoreUnavailable

from clusterra_scaler.cluster_metrics import FAILURES, forget_failures
from clusterra_scaler.control_loop import DECISIONS, ControlLoop, FencedLease
from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.decisions.log import DecisionLog
from clusterra_scaler.fleets import FencedOff, Fleets
from clusterra_scaler.planner.time_limit import DecisionOverdue

log = structlog.get_logger(__name__)

RESTART_SECONDS = 1.0
"""First pause before a failed control loop starts again from the record."""
LONGEST_RESTART_SECONDS = 30.0
"""Longest pause: a store that is too busy gets fewer requests, not more."""
OVERDUE_SECONDS = 60.0
"""The same after a decision that took too long: the next one may take as long, and others wait for its thread."""


class ClusterRunner:
    """The control loops of this process, which it feeds with snapshots and heartbeats."""

    def __init__(
        self,
        client: Client,
        registry: Registry,
        fleets: Fleets,
        lanes: DecisionLanes,
        decision_log: DecisionLog | None = None,
    ) -> None:
        self._client = client
        self._registry = registry
        self._fleets = fleets
        self._lanes = lanes
        self._decision_log = decision_log
        self.on_large: Callable[[ClusterRef], None] | None = None
        """Is told a cluster whose snapshot is large, and whose lists are then not read here."""
        self._control_loops: dict[ClusterRef, ControlLoop] = {}
        registry.on_change.append(self._on_binding)

    def on_heartbeat(self, ref: ClusterRef, heartbeat: Heartbeat) -> None:
        """Pass a heartbeat to the control loop of its cluster, if that runs here."""
        if control_loop := self._control_loops.get(ref):
            control_loop.on_heartbeat(heartbeat)

    def on_snapshot(self, ref: ClusterRef, snapshot: QueueSnapshot) -> None:
        """Pass a snapshot to the control loop of its cluster, if that runs here."""
        if (control_loop := self._control_loops.get(ref)) is None:
            return
        if not snapshot.is_head:
            control_loop.on_snapshot(snapshot)
        elif self.on_large is not None:
            self.on_large(ref)

    async def run(self, ref: ClusterRef, lease: FencedLease) -> None:
        """Run a cluster's control loop until the cluster is gone. If it fails, it starts again. Raises FencedOff."""
        try:
            await self._run(ref, lease)
        finally:
            forget_failures(ref)

    async def _run(self, ref: ClusterRef, lease: FencedLease) -> None:
        backoff = Backoff(RESTART_SECONDS, LONGEST_RESTART_SECONDS)
        # The work for all clusters of a shard begins at the same time.
        await self._lanes.turns.take()
        while (binding := self._registry.get(ref)) is not None:
            control_loop = ControlLoop(ref, binding, lease, self._fleets, self._client, self._lanes, self._decision_log)
            self._control_loops[ref] = control_loop
            try:
                await self.read_last(ref)
                await control_loop.run()
            except FencedOff:
                raise
            except (StoreUnavailable, ConditionFailed) as error:
                _failed(ref, "store")
                log.warning("fleet_not_recorded", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
                await backoff.pause()
            except DecisionOverdue as error:
                _failed(ref, "overdue")
                DECISIONS.labels("overdue").inc()
                log.error("decision_overdue", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))  # noqa: TRY400
                await asyncio.sleep(OVERDUE_SECONDS)
            except Exception:
                _failed(ref, "error")
                log.exception("controller_failed", tenant=ref.tenant, cluster=ref.cluster)
                await backoff.pause()
            finally:
                del self._control_loops[ref]
                # Here and not in `run`: the replay has exported metrics before, and may be cancelled.
                control_loop.remove_metrics()

    async def read_last(self, ref: ClusterRef) -> None:
        """Pass on the last messages of a cluster that are stored."""
        await self.read_last_snapshot(ref)
        most = self._registry.max_heartbeat_bytes(ref)
        if found := await _readable(ref, last_heartbeat(self._client, ref, most)):
            self.on_heartbeat(ref, found[0])

    async def read_last_snapshot(self, ref: ClusterRef) -> None:
        """Pass on the last snapshot of a cluster that is stored; a large one whole where nobody is told of it."""
        read = last_snapshot if self.on_large is None else last_head
        if snapshot := await _readable(ref, read(self._client, ref)):
            self.on_snapshot(ref, snapshot)

    def _on_binding(self, ref: ClusterRef, binding: ClusterBinding | None) -> None:
        if binding is not None and ref in self._control_loops:
            self._control_loops[ref].bind(binding)


async def _readable[T](ref: ClusterRef, reading: Awaitable[T | None]) -> T | None:
    """What is read of the last message; None if there is none or it is unreadable. A new one follows soon."""
    try:
        return await reading
    except (BusUnavailable, InvalidMessage) as error:
        log.warning("last_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
        return None


def _failed(ref: ClusterRef, reason: str) -> None:
    FAILURES.labels(ref.tenant, ref.cluster, reason).inc()
