"""This replica's share of the clusters: a controller for each, fed by the partition's durable and the heartbeats."""

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
from clusterra_runtime.nats.broker import Broker, Durable, durable
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import last
from clusterra_runtime.nats.lease import Lease, Leases
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.store import ConditionFailed, StoreUnavailable
from pydantic import BaseModel

from clusterra_scaler.control_loop import Controller
from clusterra_scaler.decision_log import DecisionLog
from clusterra_scaler.fleets import SERVICE, Fleets, Overtaken

log = structlog.get_logger(__name__)

RESTART_SECONDS = 1.0
"""Before a controller that failed begins again from the record."""

_CONSUMERS = {consumer.name: consumer for consumer in CONSUMERS}


class Partitions:
    """The partitions that this replica holds. A cluster belongs to one by `subjects.job_partition`."""

    def __init__(
        self,
        client: Client,
        broker: Broker,
        registry: Registry,
        fleets: Fleets,
        instance: str,
        decision_log: DecisionLog | None = None,
    ) -> None:
        self._client = client
        self._broker = broker
        self._registry = registry
        self._fleets = fleets
        self._decision_log = decision_log
        self._leases = Leases(client.jetstream(), SERVICE, JOB_PARTITIONS, self._hold, instance=instance)
        self._controllers: dict[ClusterRef, Controller] = {}
        self._durables: dict[int, Durable[QueueSnapshot]] = {}

    @property
    def working(self) -> bool:
        """Whether the snapshots of all partitions held here arrive: a condition of readiness."""
        return all(pulled.working for pulled in self._durables.values())

    async def run(self) -> None:
        """Compete for partitions and work on them until cancelled."""
        await self._leases.run()

    async def on_heartbeat(self, subject: Subject, heartbeat: Heartbeat) -> None:
        """Hand a heartbeat to its controller, if it is ours."""
        if controller := self._controllers.get(subject.ref):
            controller.see_heartbeat(heartbeat)

    async def _on_snapshot(self, subject: Subject, snapshot: QueueSnapshot, _sequence: int) -> None:
        if controller := self._controllers.get(subject.ref):
            controller.see_snapshot(snapshot)

    async def _hold(self, lease: Lease) -> None:
        """Decide for the clusters of a partition until cancelled, or until somebody with a later lease has."""
        changed = asyncio.Event()
        forget = self._follow(changed)
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
        except Overtaken as overtaken:
            log.warning("partition_overtaken", partition=lease.partition, reason=str(overtaken))
        finally:
            forget()
            await self._stop(tuple(running), running)
            del self._durables[lease.partition]
            await pulled.stop()

    def _follow(self, changed: asyncio.Event) -> Callable[[], None]:
        def on_change(ref: ClusterRef, binding: ClusterBinding | None) -> None:
            if binding is not None and ref in self._controllers:
                self._controllers[ref].bind(binding)
            changed.set()

        self._registry.on_change.append(on_change)
        return lambda: self._registry.on_change.remove(on_change)

    async def _reconcile(self, lease: Lease, running: dict[ClusterRef, asyncio.Task[None]]) -> None:
        """Run a controller for each cluster of the partition, and for no other."""
        wanted = {ref for ref in self._registry.clusters if subjects.job_partition(ref) == lease.partition}
        await self._stop(running.keys() - wanted, running)
        for ref in wanted - running.keys():
            running[ref] = asyncio.create_task(self._control(ref, lease), name=f"controller-{ref.key}")

    async def _control(self, ref: ClusterRef, lease: Lease) -> None:
        """Run a cluster's controller; one that fails harms no other cluster and begins again. Raises Overtaken."""
        while (binding := self._registry.get(ref)) is not None:
            controller = Controller(
                ref,
                binding,
                lease.fence,
                self._fleets,
                self._client,
                holds=lambda: self._leases.held.get(lease.partition) == lease,
                decision_log=self._decision_log,
            )
            self._controllers[ref] = controller
            try:
                await self._recall(ref, controller)
                await controller.run()
            except Overtaken:
                raise
            except (StoreUnavailable, ConditionFailed) as error:
                log.warning("fleet_not_recorded", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
                await asyncio.sleep(RESTART_SECONDS)
            except Exception:
                log.exception("controller_failed", tenant=ref.tenant, cluster=ref.cluster)
                await asyncio.sleep(RESTART_SECONDS)
            finally:
                del self._controllers[ref]

    async def _recall(self, ref: ClusterRef, controller: Controller) -> None:
        """Show it what was published before it listened."""
        if snapshot := await self._last(JOB.name, subjects.job_partitioned(ref), QueueSnapshot):
            controller.see_snapshot(snapshot)
        if heartbeat := await self._last(HB.name, subjects.heartbeat(ref), Heartbeat):
            controller.see_heartbeat(heartbeat)

    async def _last[M: BaseModel](self, stream: str, subject: str, model: type[M]) -> M | None:
        """What cannot be read now is published again soon."""
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
