"""This replica's share of the clusters: one control loop per cluster, fed with snapshots and heartbeats."""

import asyncio
from collections.abc import Callable, Collection

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import JOB_PARTITIONS, Subject
from clusterra_contracts.bus.topology import CONSUMERS, HB, JOB, scaler_consumer
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.broker import Broker, Durable, durable
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import last
from clusterra_runtime.nats.lease import Lease
from clusterra_runtime.nats.lease_thread import LeaseThread
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.settings import ServiceSettings
from clusterra_runtime.store.store import ConditionFailed, StoreUnavailable
from prometheus_client import Gauge
from pydantic import BaseModel

from clusterra_scaler.control_loop import DECISIONS, ControlLoop, FencedLease
from clusterra_scaler.decision_lanes import DecisionLanes
from clusterra_scaler.decision_log import DecisionLog
from clusterra_scaler.edge_versions import EdgeVersions
from clusterra_scaler.fleets import SERVICE, FencedOff, Fleets
from clusterra_scaler.large_snapshots import LargeSnapshots
from clusterra_scaler.planner.time_limit import DecisionOverdue

log = structlog.get_logger(__name__)

RESTART_SECONDS = 1.0
"""First pause before a failed control loop starts again from the record."""
LONGEST_RESTART_SECONDS = 30.0
"""Longest pause: a store that is too busy gets fewer requests, not more."""
OVERDUE_SECONDS = 60.0
"""The same after a decision that took too long: the next one may take as long, and others wait for its thread."""

CLUSTERS = Gauge("clusterra_scaler_clusters", "Clusters for which this replica decides")
PARTITIONS = Gauge("clusterra_scaler_partitions", "Partitions that this replica works on")

_CONSUMERS = {consumer.name: consumer for consumer in CONSUMERS}


class Partitions:
    """The partitions leased by this replica. `subjects.job_partition` maps a cluster to its partition."""

    def __init__(
        self,
        client: Client,
        broker: Broker,
        registry: Registry,
        fleets: Fleets,
        settings: ServiceSettings,
        lanes: DecisionLanes,
        decision_log: DecisionLog | None = None,
    ) -> None:
        self._client = client
        self._broker = broker
        self._registry = registry
        self._fleets = fleets
        self._decision_log = decision_log
        self._lanes = lanes
        self._fences = fleets.fences()
        self._leases = LeaseThread(settings, SERVICE, JOB_PARTITIONS, self._work_on, fences=self._fences)
        self._control_loops: dict[ClusterRef, ControlLoop] = {}
        self._snapshots: dict[ClusterRef, LargeSnapshots] = {}
        self._durables: dict[int, Durable[QueueSnapshot]] = {}
        CLUSTERS.set_function(lambda: len(self._control_loops))
        PARTITIONS.set_function(lambda: len(self._durables))
        self._edge_versions = EdgeVersions()

    @property
    def receiving(self) -> bool:
        """Whether the snapshots of all leased partitions arrive: a condition of readiness."""
        return all(pulled.working for pulled in self._durables.values())

    async def run(self) -> None:
        """Compete for the leases of partitions, and work on the leased ones, until cancelled."""
        await self._leases.run()

    async def on_heartbeat(self, subject: Subject, heartbeat: Heartbeat) -> None:
        """Pass a heartbeat to the control loop of its cluster, if that runs here."""
        self._edge_versions.on_heartbeat(subject, heartbeat)
        if control_loop := self._control_loops.get(subject.ref):
            control_loop.on_heartbeat(heartbeat)

    async def _on_snapshot(self, subject: Subject, snapshot: QueueSnapshot, _sequence: int) -> None:
        if snapshots := self._snapshots.get(subject.ref):
            snapshots.receive(snapshot)

    async def _work_on(self, lease: Lease) -> None:
        """Decide for the clusters of a leased partition until cancelled, or until fenced off by a later lease."""
        changed = asyncio.Event()
        unfollow = self._follow_registry(changed)
        pulled = durable(self._broker, _CONSUMERS[scaler_consumer(lease.partition)], QueueSnapshot, self._on_snapshot)
        running: dict[ClusterRef, asyncio.Task[None]] = {}
        self._durables[lease.partition] = pulled
        try:
            await pulled.start()
            while True:
                changed.clear()
                await self._reconcile(lease, running)
                waiting = asyncio.create_task(changed.wait())
                try:
                    await asyncio.wait({waiting, *running.values()}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                for task in running.values():
                    if task.done():
                        task.result()
        except FencedOff as error:
            log.warning("partition_overtaken", partition=lease.partition, reason=str(error))
            # A record from a backup may have a fence that was never counted here.
            await self._fences.raise_to(lease.partition, error.fence)
        finally:
            unfollow()
            await self._stop(tuple(running), running)
            del self._durables[lease.partition]
            await pulled.stop()

    def _follow_registry(self, changed: asyncio.Event) -> Callable[[], None]:
        """Pass changed bindings to their control loops and set `changed`, until the returned function is called."""

        def on_change(ref: ClusterRef, binding: ClusterBinding | None) -> None:
            if binding is not None and ref in self._control_loops:
                self._control_loops[ref].bind(binding)
            changed.set()

        self._registry.on_change.append(on_change)
        return lambda: self._registry.on_change.remove(on_change)

    async def _reconcile(self, lease: Lease, running: dict[ClusterRef, asyncio.Task[None]]) -> None:
        """Run a control loop for each cluster of the partition, and for no other."""
        wanted = {ref for ref in self._registry.clusters if subjects.job_partition(ref) == lease.partition}
        await self._stop(running.keys() - wanted, running)
        for ref in wanted - running.keys():
            running[ref] = asyncio.create_task(self._run_control_loop(ref, lease), name=f"control-loop-{ref.key}")

    async def _run_control_loop(self, ref: ClusterRef, lease: Lease) -> None:
        """Run a cluster's control loop. If it fails, it starts again, and other clusters go on. Raises FencedOff."""
        fenced = FencedLease(lease.fence, lambda: self._leases.held.get(lease.partition) == lease)
        backoff = Backoff(RESTART_SECONDS, LONGEST_RESTART_SECONDS)
        while (binding := self._registry.get(ref)) is not None:
            control_loop = ControlLoop(
                ref, binding, fenced, self._fleets, self._client, self._lanes, self._decision_log
            )
            self._control_loops[ref] = control_loop
            self._snapshots[ref] = snapshots = LargeSnapshots(self._client, ref, control_loop.on_snapshot)
            reading = asyncio.create_task(snapshots.run(), name=f"large-snapshots-{ref.key}")
            try:
                await self._replay_last(ref, control_loop)
                await control_loop.run()
            except FencedOff:
                raise
            except (StoreUnavailable, ConditionFailed) as error:
                log.warning("fleet_not_recorded", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
                await backoff.pause()
            except DecisionOverdue as error:
                DECISIONS.labels("overdue").inc()
                log.error("decision_overdue", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))  # noqa: TRY400
                await asyncio.sleep(OVERDUE_SECONDS)
            except Exception:
                log.exception("controller_failed", tenant=ref.tenant, cluster=ref.cluster)
                await backoff.pause()
            finally:
                del self._control_loops[ref], self._snapshots[ref]
                reading.cancel()
                # Here and not in `run`: the replay has exported metrics before, and may be cancelled.
                control_loop.remove_metrics()

    async def _replay_last(self, ref: ClusterRef, control_loop: ControlLoop) -> None:
        """Pass the last messages that were published before the control loop was there to receive them."""
        if snapshot := await self._last(JOB.name, subjects.job_partitioned(ref), QueueSnapshot):
            self._snapshots[ref].receive(snapshot)
        if heartbeat := await self._last(HB.name, subjects.heartbeat(ref), Heartbeat):
            control_loop.on_heartbeat(heartbeat)

    async def _last[M: BaseModel](self, stream: str, subject: str, model: type[M]) -> M | None:
        """Read the last message of a subject; None if there is none or it is unreadable. A new one follows soon."""
        try:
            found = await last(self._client, stream, subject, model)
        except (BusUnavailable, InvalidMessage) as error:
            log.warning("last_not_read", subject=subject, reason=str(error))
            return None
        return found[0] if found is not None else None

    async def _stop(self, refs: Collection[ClusterRef], running: dict[ClusterRef, asyncio.Task[None]]) -> None:
        tasks = [running.pop(ref) for ref in refs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
