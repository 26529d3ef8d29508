"""Ends a worker as gently as the preStop hook of a pod does: its node is drained, and its jobs get time to end.

A victim was drained and idle. But somebody may have resumed its node, and Slurm may start a job there at any moment
before the drain here. So slurmd is signalled only once nothing runs on the worker, by its own steps and by slurmctld:
slurmctld may count a job that has not begun here yet, or whose end has not been reported yet.

Last, the node's record is deleted. slurmctld refuses that while it counts a job on the node, so the last look and the
end of the node are one step. A record that outlived its slurmd could be resumed, and Slurm would start jobs on it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog
from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.process.job_steps import is_extern

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 5.0
"""Maximum time for one answer of slurmctld, which may be away."""
POLL_SECONDS = 0.2
MAX_CONCURRENT = 4
_BUSY = ("ALLOCATED", "MIXED", "COMPLETING")


@dataclass(frozen=True, slots=True)
class Grace:
    """How long a worker that is being removed gets."""

    jobs_seconds: float = 100.0
    """For jobs that run there all the same: as long as a pod's preStop hook waits."""
    slurmd_seconds: float = 10.0
    """Between SIGTERM and SIGKILL."""


DEFAULT_GRACE = Grace()


@dataclass(frozen=True, slots=True)
class Scontrol:
    """Slurm's scontrol on this host."""

    argv: Sequence[str]
    """The command, with a launcher before it."""
    conf: str | None
    """Path of slurm.conf as seen through the launcher, or None for Slurm's own search."""

    async def state(self, worker: WorkerName) -> str:
        """Returns the states of a node, such as `IDLE+DRAIN`; empty when they are not known."""
        return _state_in(await self._run("--oneliner", "show", "node", worker))

    async def is_free(self, worker: WorkerName) -> bool:
        """Returns whether slurmctld says that it counts no job on a node, or has none of this name."""
        shown = await self._run("--oneliner", "show", "node", worker)
        if state := _state_in(shown):
            return not _is_busy(state)
        return shown.startswith(f"Node {worker} not found")

    async def drain(self, worker: WorkerName) -> None:
        """Drains a node."""
        await self._run("update", f"nodename={worker}", "state=drain", "reason=worker is being removed")

    async def delete(self, worker: WorkerName) -> None:
        """Deletes a node's record. slurmctld refuses that while a job runs or completes on the node."""
        await self._run("delete", f"nodename={worker}")

    async def set_down(self, worker: WorkerName) -> None:
        """Sets a node down, so that Slurm requeues its jobs at once."""
        reason = "worker is being removed: its grace time is over"
        await self._run("update", f"nodename={worker}", "state=down", f"reason={reason}")

    async def _run(self, *arguments: str) -> str:
        """Returns the output; empty if there is none in time."""
        environment = {**os.environ, "SLURM_CONF": self.conf} if self.conf else None
        try:
            process = await asyncio.create_subprocess_exec(
                *self.argv,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            log.warning("scontrol_not_started", reason=str(error))
            return ""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                output, _ = await process.communicate()
                return output.decode(errors="replace")
        except TimeoutError:
            log.warning("scontrol_not_answered", arguments=arguments, seconds=ANSWER_SECONDS)
            return ""
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


class GentleEnd:
    """Waits until workers that are being removed run nothing."""

    def __init__(self, scontrol: Scontrol | None, grace_seconds: float) -> None:
        """`grace_seconds`: for how long jobs get time to end. Without `scontrol` only local steps are waited for."""
        self._scontrol = scontrol
        self._grace_seconds = grace_seconds
        self._calls = asyncio.Semaphore(MAX_CONCURRENT)

    async def until_nothing_runs(self, worker: WorkerName, steps: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Drains the worker's node, waits for its jobs, and deletes the node's record.

        Returns at the end of the grace time at the latest. The record stays while slurmctld does not answer, and when
        slurmctld refuses for other reasons than a job, such as a reservation: the scaler deletes what is left.
        `steps` finds the job steps that run on the worker now.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace_seconds
        state = await self._drained_state(worker)
        while True:
            running = await steps()
            if not _is_busy(state) and not await self.are_of_jobs(worker, running):
                state = await self._deleted_state(worker)
                if not _is_busy(state):
                    return
            if loop.time() >= deadline:
                log.warning("jobs_outlast_grace_time", worker=worker, steps=running, seconds=self._grace_seconds)
                if self._scontrol is not None:
                    await self._scontrol.set_down(worker)
                return
            await asyncio.sleep(POLL_SECONDS)
            if all(map(is_extern, await steps())):
                state = await self._state(worker)

    async def are_of_jobs(self, worker: WorkerName, steps: Sequence[str]) -> bool:
        """Returns whether any of these steps on the worker is that of a job that lives.

        A step `extern` alone counts unless slurmctld says that no job is there: it may be that of a job that begins or
        ends now, or of one that slurmctld has forgotten after a crash.
        """
        if not all(map(is_extern, steps)):
            return True
        if not steps:
            return False
        if self._scontrol is None:
            return True
        async with self._calls:
            return not await self._scontrol.is_free(worker)

    async def _drained_state(self, worker: WorkerName) -> str:
        state = await self._state(worker)
        if self._scontrol is None or not state or "DRAIN" in state:
            return state
        async with self._calls:
            await self._scontrol.drain(worker)
        return await self._state(worker)

    async def _deleted_state(self, worker: WorkerName) -> str:
        if self._scontrol is None:
            return ""
        async with self._calls:
            await self._scontrol.delete(worker)
        return await self._state(worker)

    async def _state(self, worker: WorkerName) -> str:
        if self._scontrol is None:
            return ""
        async with self._calls:
            return await self._scontrol.state(worker)


def _state_in(shown: str) -> str:
    """The states in what `scontrol show node` prints; empty if there are none."""
    return shown.partition(" State=")[2].partition(" ")[0]


def _is_busy(state: str) -> bool:
    return any(busy in state for busy in _BUSY)
