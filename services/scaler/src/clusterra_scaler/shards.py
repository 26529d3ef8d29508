"""This replica's share of the clusters: one control loop per cluster, fed with snapshots and heartbeats."""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.large_queue import decode_head
from clusterra_contracts.bus.subjects import SHARD_COUNT, Subject
from clusterra_contracts.bus.topology import CONSUMERS, scaler_consumer
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.broker import Broker, Durable, durable
from clusterra_runtime.nats.lease_terms import Lease
from clusterra_runtime.nats.lease_thread import LeaseThread
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.settings import ServiceSettings
from prometheus_client import Gauge

from clusterra_scaler.cluster_runner import ClusterRunner
from clusterra_scaler.control_loop import FencedLease
from clusterra_scaler.edge_versions import EdgeVersions
from clusterra_scaler.fleets import SERVICE, FencedOff, Fleets
from clusterra_scaler.large_process.process import HELD_SECONDS, LargeProcess, ProcessEnded

log = structlog.get_logger(__name__)

RESTART_SECONDS = 0.5
"""First pause before the process for large clusters is started again, and the longest one."""
LONGEST_RESTART_SECONDS = 30.0
LARGE_FOR_SECONDS = 600.0
"""How long a cluster stays in the process for large ones after its last large snapshot: each move is a takeover."""
BATCH_SIZE = 16
"""How many snapshots are pulled at once. A large one takes up to 8 MiB."""

CLUSTERS = Gauge("clusterra_scaler_clusters", "Clusters for which this replica decides")
LARGE_CLUSTERS = Gauge("clusterra_scaler_large_clusters", "Those of them that are in the process for large clusters")
SHARDS = Gauge("clusterra_scaler_partitions", "Shards that this replica works on")

_CONSUMERS = {consumer.name: consumer for consumer in CONSUMERS}


class Shards:
    """The shards leased by this replica. `subjects.job_shard` maps a cluster to its shard."""

    def __init__(
        self,
        broker: Broker,
        registry: Registry,
        fleets: Fleets,
        settings: ServiceSettings,
        runner: ClusterRunner,
        large: LargeProcess,
    ) -> None:
        self._broker = broker
        self._registry = registry
        self._runner = runner
        self._runner.on_large = self._on_large
        self._large = large
        self._fences = fleets.fences()
        self._leases = LeaseThread(settings, SERVICE, SHARD_COUNT, self._work_on, fences=self._fences)
        self._moves: dict[ClusterRef, asyncio.Event] = {}
        """Set when a cluster is to be decided for in the other process."""
        self._large_at: dict[ClusterRef, float] = {}
        """When the last large snapshot arrived, of each cluster that counts as large."""
        self._durables: dict[int, Durable[QueueSnapshot]] = {}
        CLUSTERS.set_function(lambda: len(self._moves))
        LARGE_CLUSTERS.set_function(lambda: len(self._large_at))
        SHARDS.set_function(lambda: len(self._durables))
        self._edge_versions = EdgeVersions()

    @property
    def receiving(self) -> bool:
        """Whether the snapshots of all leased shards arrive: a condition of readiness."""
        return all(pulled.working for pulled in self._durables.values())

    async def run(self) -> None:
        """Compete for the leases of shards, and work on the leased ones, until cancelled."""
        telling = asyncio.create_task(self._tell_held(), name="held-leases")
        try:
            await self._leases.run()
        finally:
            telling.cancel()

    def on_heartbeat(self, subject: Subject, heartbeat: Heartbeat) -> None:
        """Pass a heartbeat to the control loop of its cluster, if that runs here."""
        self._edge_versions.on_heartbeat(subject, heartbeat)
        self._runner.on_heartbeat(subject.ref, heartbeat)

    async def _on_snapshot(self, subject: Subject, snapshot: QueueSnapshot, _sequence: int) -> None:
        ref = subject.ref
        large_at = self._large_at.get(ref)
        if large_at is None:
            self._runner.on_snapshot(ref, snapshot)
            return
        self._large.on_snapshot(ref)
        if snapshot.is_head:
            self._large_at[ref] = time.monotonic()
        elif time.monotonic() - large_at > LARGE_FOR_SECONDS:
            log.info("cluster_is_small_again", **_named(ref))
            del self._large_at[ref]
            self._moves[ref].set()

    async def _work_on(self, lease: Lease) -> None:
        """Decide for the clusters of a leased shard until cancelled, or until fenced off by a later lease."""
        changed = asyncio.Event()
        unfollow = self._follow_registry(changed)
        consumer = _CONSUMERS[scaler_consumer(lease.shard)]
        pulled = durable(self._broker, consumer, decode_head, self._on_snapshot, batch_size=BATCH_SIZE)
        running: dict[ClusterRef, asyncio.Task[None]] = {}
        self._durables[lease.shard] = pulled
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
            log.warning("shard_overtaken", shard=lease.shard, reason=str(error))
            # A record from a backup may have a fence that was never counted here.
            await self._fences.raise_to(lease.shard, error.fence)
        finally:
            unfollow()
            await self._stop(tuple(running), running)
            del self._durables[lease.shard]
            await pulled.stop()

    def _follow_registry(self, changed: asyncio.Event) -> Callable[[], None]:
        """Set `changed` at each change of the registry, until the returned function is called."""

        def on_change(_ref: ClusterRef, _binding: ClusterBinding | None) -> None:
            changed.set()

        self._registry.on_change.append(on_change)
        return lambda: self._registry.on_change.remove(on_change)

    async def _reconcile(self, lease: Lease, running: dict[ClusterRef, asyncio.Task[None]]) -> None:
        """Run a control loop for each cluster of the shard, and for no other."""
        wanted = {ref for ref in self._registry.clusters if subjects.job_shard(ref) == lease.shard}
        await self._stop(running.keys() - wanted, running)
        for ref in wanted - running.keys():
            running[ref] = asyncio.create_task(self._run_cluster(ref, lease), name=f"control-loop-{ref.key}")

    async def _run_cluster(self, ref: ClusterRef, lease: Lease) -> None:
        """Decide for a cluster until it is gone: here, or in the process for large ones. Raises FencedOff."""
        backoff = Backoff(RESTART_SECONDS, LONGEST_RESTART_SECONDS)
        try:
            while self._registry.get(ref) is not None:
                self._moves[ref] = moves = asyncio.Event()
                if ref not in self._large_at:
                    await _unless(moves, self._runner.run(ref, self._fenced(lease)))
                    continue
                try:
                    await _unless(moves, self._large.run(ref, lease))
                except ProcessEnded as error:
                    log.error("large_cluster_undecided", **_named(ref), reason=str(error))  # noqa: TRY400
                    await backoff.pause()
        finally:
            self._moves.pop(ref, None)
            self._large_at.pop(ref, None)

    def _fenced(self, lease: Lease) -> FencedLease:
        return FencedLease(lease.fence, lambda: self._leases.held.get(lease.shard) == lease)

    def _on_large(self, ref: ClusterRef) -> None:
        """A cluster that is decided for here has become large."""
        self._large_at[ref] = time.monotonic()
        log.info("cluster_is_large", **_named(ref))
        self._moves[ref].set()

    async def _tell_held(self) -> None:
        while True:
            self._large.hold(self._leases.held)
            await asyncio.sleep(HELD_SECONDS)

    async def _stop(self, refs: Collection[ClusterRef], running: dict[ClusterRef, asyncio.Task[None]]) -> None:
        tasks = [running.pop(ref) for ref in refs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do work until it ends, or until `stop` is set. Raises what the work raises."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        stopping.cancel()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _named(ref: ClusterRef) -> dict[str, str]:
    return {"tenant": ref.tenant, "cluster": ref.cluster}
