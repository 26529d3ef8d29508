"""The `process` substrate: each worker is a slurmd process of this host."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import structlog
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName, now
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec

from clusterra_edge_agent.process.leftovers import WORKER, end_processes
from clusterra_edge_agent.process.listening import listening
from clusterra_edge_agent.process.one_by_one import StartRefused, one_by_one
from clusterra_edge_agent.process.ports import Ports
from clusterra_edge_agent.process.record import ProcessRecord
from clusterra_edge_agent.process.slurmd import InvalidSpec, Slurmd
from clusterra_edge_agent.process.worker_files import WorkerFiles
from clusterra_edge_agent.process.worker_process import WorkerProcess
from clusterra_edge_agent.substrate.backoff import CrashBackoff
from clusterra_edge_agent.substrate.changes import Changes
from clusterra_edge_agent.substrate.port import News, SubstrateUnavailable
from clusterra_edge_agent.substrate.records import End, Records

log = structlog.get_logger(__name__)

BOOT_LOOK_SECONDS = 0.05
SLOW_BOOT_SECONDS = 10.0
SLOW_BOOT_LOOK_SECONDS = 1.0
RETRY_SECONDS = 5.0
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(slots=True)
class _Known:
    record: ProcessRecord
    process: WorkerProcess | None
    """None when it has ended."""
    serving: bool = False


class ProcessSubstrate:
    """Starts, adopts, watches and ends slurmd processes.

    - A worker's record is on disk before its program runs, so at whatever point this agent is killed the next one
      adopts what runs and starts nothing twice.
    - A worker that ends by itself is `failed` until that has been told, then forgotten; its shape is started again
      after a back-off.
    """

    kind: Literal["process"] = "process"

    def __init__(
        self, slurmd: Slurmd, folder: Path, *, ports: range, spool: str | None = None, grace_seconds: float = 10.0
    ) -> None:
        self.changes = Changes()
        self._slurmd = slurmd
        self._records = Records(folder / "workers", ProcessRecord)
        self._files = WorkerFiles(folder / "logs", spool)
        self._ports = Ports(ports, folder / "port.json")
        self._grace_seconds = grace_seconds
        self._known: dict[WorkerName, _Known] = {}
        self._kills: dict[WorkerName, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._backoff = CrashBackoff()
        self._booting = asyncio.Event()

    def adopt(self) -> None:
        """Take over what an earlier agent started. Raises state.StateUnreadable, OSError."""
        for record in self._records.load():
            process = WorkerProcess.find(record.process) if record.end is None else None
            known = self._known[record.name] = _Known(record, process)
            self._ports.given(record.port, record.started_at)
            if process is not None:
                self._watch(known, process)
                if record.removing:
                    self._terminate(record.name, process)
            elif record.end is None:
                self._end(known, "it ended while no agent watched it")
        log.info("workers_adopted", running=sum(known.process is not None for known in self._known.values()))

    def close(self) -> None:
        """Watch the workers no longer; all of them go on."""
        for kill in self._kills.values():
            kill.cancel()
        for ending in self._endings:
            ending.cancel()
        for known in self._known.values():
            if known.process is not None:
                known.process.close()
                known.process = None

    async def workers(self) -> tuple[Worker, ...]:
        """All workers, without those whose wanted end is only still to be told."""
        everything = self._known.values()
        return tuple(
            known.record.worker(serving=known.serving) for known in everything if known.record.end != "stopped"
        )

    async def apply(self, desired: DesiredState, is_current: Callable[[], bool]) -> float | None:
        """See `Substrate.apply`."""
        return await one_by_one(desired, is_current, self)

    async def start(self, shape: ShapeName, spec: WorkerSpec) -> WorkerName:
        """Start a slurmd on a port of its own. Raises StartRefused."""
        if wait_seconds := self._backoff.remaining_seconds(shape, time.monotonic()):
            raise StartRefused(
                f"{shape} failed {self._backoff.in_a_row(shape)} times in a row; see {self._files.last_failure(shape)}",
                retry_after_seconds=wait_seconds,
            )
        name, port = self._free_name(shape), self._free_port()
        try:
            argv = self._slurmd.argv(name, port, spec)
            process = WorkerProcess.start_held(argv, self._files.output(name), {**os.environ, WORKER: name})
        except (OSError, InvalidSpec) as error:
            self._backoff.failed(shape, lived_seconds=0.0, now=time.monotonic())
            raise StartRefused(f"no process for {name}: {error}", retry_after_seconds=RETRY_SECONDS) from error
        known = _Known(
            ProcessRecord(name=name, shape=shape, port=port, process=process.identity, started_at=now()), process
        )
        try:
            self._records.save(known.record)
        except OSError as error:
            process.close()
            process.reap()
            raise StartRefused(f"no record of {name}: {error}", retry_after_seconds=RETRY_SECONDS) from error
        process.release()
        self._known[name] = known
        self._watch(known, process)
        self.changes.tell()
        return name

    async def remove(self, name: WorkerName) -> None:
        """SIGTERM, and SIGKILL after the grace time; the worker is `terminating` until it has ended."""
        known = self._known.get(name)
        if known is None or known.process is None or known.record.removing:
            return
        self._keep(known, removing=True)
        self._terminate(name, known.process)
        self.changes.tell()

    def untold(self) -> tuple[News, ...]:
        """Facts of all workers, each worker's in order."""
        return tuple(news for known in self._known.values() for news in known.record.news())

    async def told(self, news: News) -> None:
        """A worker whose end has been told is forgotten. Raises SubstrateUnavailable."""
        kind, name = news.fact.kind, news.worker
        if kind == "worker.started":
            self._keep(self._known[name], start_told=True)
            return
        try:
            self._ports.keep()
            self._files.put_away(name, self._known[name].record.shape, failed=kind == "worker.failed")
            self._records.delete(name)
        except OSError as error:
            raise SubstrateUnavailable(f"{name} cannot be forgotten: {error}") from error
        del self._known[name]
        self.changes.tell()

    async def run(self) -> None:
        """See workers begin to serve: they listen on their port. Idle while none boots; runs until cancelled."""
        while True:
            await self._booting.wait()
            booting = {
                known.process.identity.pid: known
                for known in self._known.values()
                if known.process is not None and not known.serving and not known.record.removing
            }
            if not booting:
                self._booting.clear()
                continue
            for pid in (serving := listening({pid: known.record.port for pid, known in booting.items()})):
                booting[pid].serving = True
            if serving:
                self.changes.tell()
            newest = max(known.record.started_at for known in booting.values())
            slow = (now() - newest).total_seconds() > SLOW_BOOT_SECONDS
            await asyncio.sleep(SLOW_BOOT_LOOK_SECONDS if slow else BOOT_LOOK_SECONDS)

    def _watch(self, known: _Known, process: WorkerProcess) -> None:
        process.on_exit(lambda: self._ended(known, process))
        self._booting.set()

    def _ended(self, known: _Known, process: WorkerProcess) -> None:
        code = process.reap()
        process.close()
        known.process = None
        if kill := self._kills.pop(known.record.name, None):
            kill.cancel()
        self._end(known, "it ended by itself" if code is None else f"it ended by itself with exit code {code}")

    def _end(self, known: _Known, reason: str) -> None:
        ending = asyncio.create_task(self._finish(known, reason))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _finish(self, known: _Known, reason: str) -> None:
        """A worker has ended when nothing of it runs any more, as a pod has: its jobs may run again elsewhere then."""
        await asyncio.to_thread(end_processes, known.record.name)
        await asyncio.to_thread(self._files.remove_spool, known.record.name)
        record, ended_at = known.record, now()
        end: End
        if record.removing:
            end, reason = "stopped", "it was removed as desired"
        else:
            end = "failed"
            lived_seconds = (ended_at - record.started_at).total_seconds()
            self._backoff.failed(record.shape, lived_seconds=lived_seconds, now=time.monotonic())
        log.info("worker_ended", worker=record.name, shape=record.shape, end=end, reason=reason)
        try:
            self._keep(known, end=end, ended_at=ended_at, reason=reason)
        except SubstrateUnavailable as error:
            # The next agent will find it gone. Until then this one knows better.
            log.warning("worker_end_not_kept", worker=record.name, reason=str(error))
            known.record = replace(record, end=end, ended_at=ended_at, reason=reason)
        self.changes.tell()

    def _terminate(self, name: WorkerName, process: WorkerProcess) -> None:
        process.signal(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        self._kills[name] = loop.call_later(self._grace_seconds, process.signal, signal.SIGKILL)

    def _keep(self, known: _Known, **change: Any) -> None:
        record = replace(known.record, **change)
        try:
            self._records.save(record)
        except OSError as error:
            raise SubstrateUnavailable(f"the record of {record.name} cannot be written: {error}") from error
        known.record = record

    def _free_name(self, shape: ShapeName) -> WorkerName:
        while (name := f"{shape}-{''.join(secrets.choice(_BASE32) for _ in range(5))}") in self._known:
            pass
        return name

    def _free_port(self) -> int:
        taken = {known.record.port for known in self._known.values() if known.process is not None}
        port = self._ports.free(taken)
        if port is None:
            raise StartRefused(
                f"all {len(self._ports.all)} ports from {self._ports.all.start} are in use:"
                " raise CLUSTERRA_SLURMD_PORTS",
                retry_after_seconds=RETRY_SECONDS,
            )
        return port
