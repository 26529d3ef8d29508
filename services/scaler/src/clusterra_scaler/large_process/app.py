"""The process for large clusters: control loops as in the scaler itself, under the leases of that scaler."""

import asyncio
import socket
import time
from collections.abc import Mapping

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.process_metrics import families
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox

from clusterra_scaler.cluster_runner import ClusterRunner
from clusterra_scaler.control_loop import FencedLease
from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.decisions.log import LARGE, decision_log
from clusterra_scaler.fleets import SERVICE, FencedOff, Fleets
from clusterra_scaler.large_process.messages import COMMAND, LINE_BYTES, Changed, Ended, Held, Metrics, Run, Stop, line
from clusterra_scaler.settings import Settings

log = structlog.get_logger(__name__)

METRICS_SECONDS = 5.0
HELD_FOR_SECONDS = 5.0
"""How long a lease counts as held after the scaler has said so. Less than the time in which another scaler takes it."""


async def serve(settings: Settings, connection: socket.socket) -> None:
    """Do what the scaler at the other end of a connection says, until it closes the connection."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=LINE_BYTES)
    scaler_directory = settings.decision_log_dir
    own, others = (scaler_directory / LARGE, (scaler_directory,)) if scaler_directory is not None else (None, ())
    with decision_log(own, settings.decision_log_bytes, *others) as decisions, DecisionLanes() as lanes:
        async with DynamoDBStore(table_prefix=settings.table_prefix) as store:
            client, registry = await bus.connect(settings, SERVICE), Registry()
            try:
                async with Outbox(
                    store, lambda subject, body, headers: bus.store(client, subject, body, headers)
                ) as box:
                    await registry.start(client)
                    runner = ClusterRunner(client, registry, Fleets(store, box), lanes, decisions)
                    await _Served(client, runner, writer).until_closed(reader)
            finally:
                await registry.stop()
                await bus.close(client)


class _Served:
    """The clusters that the scaler has handed over."""

    def __init__(self, client: Client, runner: ClusterRunner, writer: asyncio.StreamWriter) -> None:
        self._client = client
        self._runner = runner
        self._writer = writer
        self._clusters: dict[ClusterRef, asyncio.Task[None]] = {}
        self._changed: dict[ClusterRef, asyncio.Event] = {}
        self._fences: Mapping[int, int] = {}
        self._held_at = 0.0

    async def until_closed(self, reader: asyncio.StreamReader) -> None:
        """Follow the commands."""
        telling = asyncio.create_task(self._tell_metrics(), name="metrics")
        try:
            while received := await _line(reader):
                self._follow(COMMAND.validate_json(received))
        finally:
            tasks = (telling, *self._clusters.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self, command: Run | Stop | Changed | Held) -> None:
        match command:
            case Run(ref=ref):
                self._stop(ref)
                task = asyncio.create_task(self._run(command, self._clusters.get(ref)), name=f"large-{ref.key}")
                self._clusters[ref] = task
            case Stop(ref=ref):
                self._stop(ref)
            case Changed(ref=ref) if ref in self._changed:
                self._changed[ref].set()
            case Held(fences=fences):
                self._fences, self._held_at = fences, time.monotonic()

    def _stop(self, ref: ClusterRef) -> None:
        if (task := self._clusters.get(ref)) is not None:
            task.cancel()

    async def _run(self, command: Run, before: asyncio.Task[None] | None) -> None:
        """Decide for a cluster until cancelled, after the run `before` has ended."""
        ref, fenced_off_by, reason = command.ref, None, ""
        self._changed[ref] = changed = asyncio.Event()
        reading: asyncio.Task[None] | None = None
        subscription = None
        try:
            if before is not None:
                await asyncio.wait({before})
            subscription = await bus.subscribe(self._client, subjects.heartbeat(ref), Heartbeat, self._on_heartbeat)
            reading = asyncio.create_task(self._read_snapshots(ref, changed), name=f"snapshots-{ref.key}")
            await self._runner.run(ref, FencedLease(command.fence, lambda: self._holds(command)))
            reason = "the cluster is gone"
        except FencedOff as error:
            fenced_off_by, reason = error.fence, str(error)
        except Exception as error:
            log.exception("large_cluster_failed", tenant=ref.tenant, cluster=ref.cluster)
            reason = type(error).__name__
        finally:
            if reading is not None:
                reading.cancel()
            if subscription is not None and not self._client.is_closed:
                await subscription.unsubscribe()
            if self._changed.get(ref) is changed:
                del self._changed[ref]
            if self._clusters.get(ref) is asyncio.current_task():
                del self._clusters[ref]
                self._writer.write(line(Ended(ref=ref, fenced_off_by=fenced_off_by, reason=reason)))

    def _holds(self, command: Run) -> bool:
        fresh = time.monotonic() - self._held_at < HELD_FOR_SECONDS
        return fresh and self._fences.get(command.shard) == command.fence

    async def _on_heartbeat(self, subject: Subject, heartbeat: Heartbeat) -> None:
        self._runner.on_heartbeat(subject.ref, heartbeat)

    async def _read_snapshots(self, ref: ClusterRef, changed: asyncio.Event) -> None:
        """Read the last stored snapshot after each change. Several changes together are one."""
        while True:
            await changed.wait()
            changed.clear()
            try:
                await self._runner.read_last_snapshot(ref)
            except Exception:
                # A later snapshot may be better.
                log.exception("large_snapshot_failed", tenant=ref.tenant, cluster=ref.cluster)

    async def _tell_metrics(self) -> None:
        while True:
            await asyncio.sleep(METRICS_SECONDS)
            self._writer.write(line(Metrics(families=families())))
            await self._writer.drain()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end of the connection, also when the scaler was killed."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
