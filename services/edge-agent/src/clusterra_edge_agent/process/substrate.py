"""The `process` substrate: each worker is a slurmd process of this host."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import structlog
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName, now
from clusterra_contracts.scale import DesiredState
from clusterra_contracts.shapes import WorkerSpec

from clusterra_edge_agent.process.gentle_end import DEFAULT_GRACE, GentleEnd, Grace
from clusterra_edge_agent.process.job_steps import running_steps
from clusterra_edge_agent.process.leftovers import WORKER, kill_processes
from clusterra_edge_agent.process.listening import listening
from clusterra_edge_agent.process.one_by_one import StartFailed, WorkerBusy, apply_one_by_one
from clusterra_edge_agent.process.ports import Ports
from clusterra_edge_agent.process.record import ProcessRecord
from clusterra_edge_agent.process.session_host import session_host
from clusterra_edge_agent.process.slurmd import InvalidSpec, Slurmd
from clusterra_edge_agent.process.worker_files import WorkerFiles
from clusterra_edge_agent.process.worker_process import WorkerProcess
from clusterra_edge_agent.substrate.backoff import CrashBackoff
from clusterra_edge_agent.substrate.change_signal import ChangeSignal
from clusterra_edge_agent.substrate.port import DesiredCheck, SessionServer, SubstrateUnavailable, WorkerEvent
from clusterra_edge_agent.substrate.records import End, Records

log = structlog.get_logger(__name__)

BOOT_POLL_SECONDS = 0.05
SLOW_BOOT_SECONDS = 10.0
SLOW_BOOT_POLL_SECONDS = 1.0
RETRY_SECONDS = 5.0
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(slots=True)
class _TrackedWorker:
    record: ProcessRecord
    process: WorkerProcess | None
    """None once it has ended."""
    serving: bool = False


class ProcessSubstrate:
    """Starts, adopts, watches and removes slurmd processes.

    - A worker's record is on disk before its program runs. If this agent is killed at any point, the next one adopts
      the running workers and starts none twice.
    - A worker that ends by itself is `failed` until that event is published, then it is forgotten. Its shape is started
      again after a back-off.
    """

    kind: Literal["process"] = "process"

    def __init__(
        self, slurmd: Slurmd, folder: Path, *, ports: range, spool: str | None = None, grace: Grace = DEFAULT_GRACE
    ) -> None:
        self.change_signal = ChangeSignal()
        self._slurmd = slurmd
        self._records = Records(folder / "workers", ProcessRecord)
        self._files = WorkerFiles(folder / "logs", spool)
        self._ports = Ports(ports, folder / "port.json")
        self._grace = grace
        self._gentle_end = GentleEnd(slurmd.scontrol, grace.jobs_seconds)
        self._tracked: dict[WorkerName, _TrackedWorker] = {}
        self._kill_timers: dict[WorkerName, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._backoff = CrashBackoff()
        self._booting = asyncio.Event()

    def adopt(self) -> None:
        """Adopts the workers that an earlier agent started. Raises state_files.StateUnreadable, OSError."""
        for record in self._records.load():
            process = WorkerProcess.find(record.process) if record.end is None else None
            tracked = self._tracked[record.name] = _TrackedWorker(record, process)
            self._ports.record_assignment(record.port, record.started_at)
            if process is not None:
                self._watch(tracked, process)
                if record.removing:
                    self._schedule(self._end_gently(record.name, process))
            elif record.end is None:
                self._schedule_end(tracked, "it ended while no agent watched it")
        log.info("workers_adopted", running=sum(tracked.process is not None for tracked in self._tracked.values()))

    def close(self) -> None:
        """Stops watching the workers. They keep running."""
        for kill in self._kill_timers.values():
            kill.cancel()
        for ending in self._ending:
            ending.cancel()
        for tracked in self._tracked.values():
            if tracked.process is not None:
                tracked.process.close()
                tracked.process = None

    async def workers(self) -> tuple[Worker, ...]:
        """Returns all workers except stopped ones, which are only kept until their event is published."""
        everything = self._tracked.values()
        return tuple(
            tracked.record.worker(serving=tracked.serving) for tracked in everything if tracked.record.end != "stopped"
        )

    async def apply(self, desired: DesiredState, check: DesiredCheck) -> float | None:
        """See `Substrate.apply`."""
        return await apply_one_by_one(desired, check, self)

    async def session_host(self, worker: WorkerName, server: SessionServer) -> str | None:
        """See `Substrate.session_host`."""
        tracked = self._tracked.get(worker)
        if tracked is None or tracked.process is None:
            return None
        return await asyncio.to_thread(session_host, worker, tracked.process.identity.pid, server)

    async def start(self, shape: ShapeName, spec: WorkerSpec) -> WorkerName:
        """Starts a slurmd on a port of its own. Raises StartFailed."""
        if wait_seconds := self._backoff.remaining_seconds(shape, time.monotonic()):
            raise StartFailed(
                f"{shape} failed {self._backoff.consecutive(shape)} times in a row;"
                f" see {self._files.last_failure(shape)}",
                retry_after_seconds=wait_seconds,
            )
        name, port = self._free_name(shape), self._free_port()
        try:
            argv = self._slurmd.argv(name, port, spec)
            process = WorkerProcess.start_held(argv, self._files.output(name), {**os.environ, WORKER: name})
        except (OSError, InvalidSpec) as error:
            self._backoff.record_failure(shape, lived_seconds=0.0, now=time.monotonic())
            raise StartFailed(
                f"the process of {name} cannot be started: {error}", retry_after_seconds=RETRY_SECONDS
            ) from error
        tracked = _TrackedWorker(
            ProcessRecord(name=name, shape=shape, port=port, process=process.identity, started_at=now()), process
        )
        try:
            self._records.save(tracked.record)
        except OSError as error:
            process.close()
            process.reap()
            raise StartFailed(
                f"the record of {name} cannot be written: {error}", retry_after_seconds=RETRY_SECONDS
            ) from error
        process.release()
        self._tracked[name] = tracked
        self._watch(tracked, process)
        self.change_signal.notify()
        return name

    async def remove(self, name: WorkerName) -> None:
        """Waits until nothing runs there, then sends SIGTERM, and SIGKILL after the grace times.

        The worker is `terminating` until it has ended. Raises WorkerBusy if a job step runs there already.
        """
        tracked = self._tracked.get(name)
        if tracked is None or tracked.process is None or tracked.record.removing:
            return
        steps = await _running_steps(name, tracked.process)
        if await self._gentle_end.are_of_jobs(name, steps):
            raise WorkerBusy(f"the job steps {', '.join(steps)} run there")
        if tracked.process is None or tracked.record.removing:
            return  # It has ended, or its removal has begun, while slurmctld was asked.
        self._update(tracked, removing=True)
        self._schedule(self._end_gently(name, tracked.process))
        self.change_signal.notify()

    def pending_events(self) -> tuple[WorkerEvent, ...]:
        """Returns the pending events of all workers, in order for each worker."""
        return tuple(event for tracked in self._tracked.values() for event in tracked.record.pending_events())

    async def mark_published(self, event: WorkerEvent) -> None:
        """Records the event as published. A worker whose end is published is forgotten. Raises SubstrateUnavailable."""
        kind, name = event.fact.kind, event.worker
        if kind == "worker.started":
            self._update(self._tracked[name], start_published=True)
            return
        try:
            self._ports.save()
            self._files.dispose_output(name, self._tracked[name].record.shape, failed=kind == "worker.failed")
            self._records.delete(name)
        except OSError as error:
            raise SubstrateUnavailable(f"the record of {name} cannot be deleted: {error}") from error
        del self._tracked[name]
        self.change_signal.notify()

    async def run(self) -> None:
        """Detects when workers begin to serve on their port. Idle while none boots. Runs until cancelled."""
        while True:
            await self._booting.wait()
            booting = {
                tracked.process.identity.pid: tracked
                for tracked in self._tracked.values()
                if tracked.process is not None and not tracked.serving and not tracked.record.removing
            }
            if not booting:
                self._booting.clear()
                continue
            ports = {pid: tracked.record.port for pid, tracked in booting.items()}
            for pid in (serving := await asyncio.to_thread(listening, ports)):
                booting[pid].serving = True
            if serving:
                self.change_signal.notify()
            newest = max(tracked.record.started_at for tracked in booting.values())
            slow = (now() - newest).total_seconds() > SLOW_BOOT_SECONDS
            await asyncio.sleep(SLOW_BOOT_POLL_SECONDS if slow else BOOT_POLL_SECONDS)

    def _watch(self, tracked: _TrackedWorker, process: WorkerProcess) -> None:
        process.on_exit(lambda: self._on_exit(tracked, process))
        self._booting.set()

    def _on_exit(self, tracked: _TrackedWorker, process: WorkerProcess) -> None:
        code = process.reap()
        process.close()
        tracked.process = None
        if kill := self._kill_timers.pop(tracked.record.name, None):
            kill.cancel()
        self._schedule_end(
            tracked, "it ended by itself" if code is None else f"it ended by itself with exit code {code}"
        )

    def _schedule_end(self, tracked: _TrackedWorker, reason: str) -> None:
        self._schedule(self._record_end(tracked, reason))

    def _schedule(self, work: Coroutine[Any, Any, None]) -> None:
        ending = asyncio.create_task(work)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _record_end(self, tracked: _TrackedWorker, reason: str) -> None:
        """Records the end of a worker once all its processes are gone: only then may its jobs run elsewhere."""
        await asyncio.to_thread(kill_processes, tracked.record.name)
        await asyncio.to_thread(self._files.remove_spool, tracked.record.name)
        record, ended_at = tracked.record, now()
        end: End
        if record.removing:
            end, reason = "stopped", "it was removed as desired"
        else:
            end = "failed"
            lived_seconds = (ended_at - record.started_at).total_seconds()
            self._backoff.record_failure(record.shape, lived_seconds=lived_seconds, now=time.monotonic())
        log.info("worker_ended", worker=record.name, shape=record.shape, end=end, reason=reason)
        try:
            self._update(tracked, end=end, ended_at=ended_at, reason=reason)
        except SubstrateUnavailable as error:
            # The next agent will find that it has ended. Until then this agent remembers it.
            log.warning("worker_end_not_kept", worker=record.name, reason=str(error))
            tracked.record = replace(record, end=end, ended_at=ended_at, reason=reason)
        self.change_signal.notify()

    async def _end_gently(self, name: WorkerName, process: WorkerProcess) -> None:
        await self._gentle_end.until_nothing_runs(name, lambda: _running_steps(name, process))
        tracked = self._tracked.get(name)
        if tracked is None or tracked.process is not process:
            # It has ended meanwhile.
            return
        process.signal(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        self._kill_timers[name] = loop.call_later(self._grace.slurmd_seconds, process.signal, signal.SIGKILL)

    def _update(self, tracked: _TrackedWorker, **change: Any) -> None:
        record = replace(tracked.record, **change)
        try:
            self._records.save(record)
        except OSError as error:
            raise SubstrateUnavailable(f"the record of {record.name} cannot be written: {error}") from error
        tracked.record = record

    def _free_name(self, shape: ShapeName) -> WorkerName:
        while (name := f"{shape}-{''.join(secrets.choice(_BASE32) for _ in range(5))}") in self._tracked:
            pass
        return name

    def _free_port(self) -> int:
        taken = {tracked.record.port for tracked in self._tracked.values() if tracked.process is not None}
        port = self._ports.next_free(taken)
        if port is None:
            raise StartFailed(
                f"all {len(self._ports.all)} ports from {self._ports.all.start} are in use:"
                " raise CLUSTERRA_SLURMD_PORTS",
                retry_after_seconds=RETRY_SECONDS,
            )
        return port


async def _running_steps(name: WorkerName, process: WorkerProcess) -> tuple[str, ...]:
    try:
        return await asyncio.to_thread(running_steps, name, process.identity.pid)
    except OSError:
        # It has just ended, and its end removes what is left.
        return ()
