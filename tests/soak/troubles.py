"""The troubles of a soak: each is caused, lasts a while, and is over when its function returns."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
from clusterra_lab.parts.aws_proxy import AwsProxy
from clusterra_lab.slurm.daemon import DaemonName
from clusterra_lab.stack.stack import Stack

from soak.clock import AgentClock

PAUSE_SECONDS = (5.0, 15.0)
"""How long something is stopped, full, slow or wrong."""
CLOCK_STEPS = (-3600, -120, -30, 120, 3600)

type Trouble = Callable[[], Awaitable[None]]


@dataclass
class Troubles:
    """All troubles of a lab, and how often each was caused."""

    lab: Stack
    clock: AgentClock
    store: AwsProxy
    shared: Path
    """The folder of the small file system that is the cluster's shared folder."""
    rng: random.Random
    without: frozenset[str] = frozenset()
    """Troubles that are left out."""
    counts: Counter[str] = field(default_factory=Counter)
    slurmctld_killed_at: list[float] = field(default_factory=list)
    """In seconds of the monotonic clock."""
    log: list[str] = field(default_factory=list)
    """What went wrong in causing a trouble."""

    async def run(self, stop: asyncio.Event, pause_seconds: tuple[float, float], last_kill: float) -> None:
        """Cause one trouble after another until `stop`: all of them in a random order, then again.

        From `last_kill` on (in seconds of the monotonic clock) no service is killed, so that each lives long enough to
        show whether its memory grows.
        """
        service_kills = {"clock set back over a restart", *(f"kill {name}" for name in self.lab.services)}
        while not stop.is_set():
            kinds = [(kind, cause) for kind, cause in self._kinds().items() if kind not in self.without]
            self.rng.shuffle(kinds)
            for kind, cause in kinds:
                if kind in service_kills and time.monotonic() >= last_kill:
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.rng.uniform(*pause_seconds)):
                        await stop.wait()
                if stop.is_set():
                    return
                self.counts[kind] += 1
                await cause()

    def _kinds(self) -> Mapping[str, Trouble]:
        daemons: tuple[DaemonName, ...] = ("slurmctld", "slurmdbd", "slurmrestd")
        return {
            **{f"kill {name}": partial(self._kill_service, name) for name in self.lab.services},
            **{f"pause {name}": partial(self._pause_service, name) for name in ("scaler", "proxy", "edge-agent")},
            **{f"kill {name}": partial(self._kill_daemon, name) for name in daemons},
            # An orderly stop, as of a pod that is moved: slurmctld stores its state.
            "stop slurmctld": self.lab.slurm["slurmctld"].restart,
            "kill nats": self._kill_nats,
            "pause nats": self._pause_nats,
            "full disk": self._fill_disk,
            "throttled store": self._throttle_store,
            "clock step": self._step_clock,
            "clock set back over a restart": self._set_clock_back,
        }

    async def _kill_service(self, name: str) -> None:
        service = self.lab.services[name]
        service.kill()
        await service.start()
        await service.ready(120)

    async def _pause_service(self, name: str) -> None:
        await self._pause(self.lab.services[name].pid)

    async def _kill_daemon(self, name: DaemonName) -> None:
        if name == "slurmctld":
            self.slurmctld_killed_at.append(time.monotonic())
        await self.lab.slurm[name].kill()
        await self.lab.slurm[name].start()

    async def _kill_nats(self) -> None:
        await self.lab.nats.kill()
        await self.lab.nats.restart()

    async def _pause_nats(self) -> None:
        server = str(self.lab.home.state / "nats")
        for process in psutil.Process().children(recursive=True):
            if process.name() == "nats-server" and any(server in part for part in process.cmdline()):
                await self._pause(process.pid)
                return
        self.log.append("no nats-server was found to pause")

    async def _pause(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        try:
            await self._wait()
        finally:
            os.kill(pid, signal.SIGCONT)

    async def _fill_disk(self) -> None:
        filler = self.shared / "filler"
        try:
            with suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
            await self._wait()
        finally:
            filler.unlink(missing_ok=True)

    async def _throttle_store(self) -> None:
        self.store.refused_share = self.rng.choice((0.5, 0.9, 1.0))
        try:
            await self._wait()
        finally:
            self.store.refused_share = 0.0

    async def _step_clock(self) -> None:
        self.clock.step(self.rng.choice(CLOCK_STEPS))
        try:
            await self._wait()
        finally:
            self.clock.step(0)

    async def _set_clock_back(self) -> None:
        """The agent's clock is ahead, and the agent starts again after it was corrected."""
        self.clock.step(max(CLOCK_STEPS))
        try:
            await self._kill_service("edge-agent")
            await self._wait()
        finally:
            self.clock.step(0)
        await self._kill_service("edge-agent")

    async def _wait(self) -> None:
        await asyncio.sleep(self.rng.uniform(*PAUSE_SECONDS))
