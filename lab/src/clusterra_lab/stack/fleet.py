"""Runs services as processes, each of which can be stopped, killed and started again separately."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from clusterra_lab.machine.concurrency import unwrapped_task_group
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import Process, run, start, until
from clusterra_lab.machine.progress import Progress, silent

READY_SECONDS = 180.0
STOP_SECONDS = 25.0
"""A little longer than a service's own grace time (`ServiceSettings.stop_grace_seconds`)."""


class SetupFailed(LabProblem):
    """A setup command ended with an error."""


@dataclass(frozen=True)
class Command:
    """A Python module to run; `environment` is added to that of this process."""

    name: str
    module: str
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()

    @property
    def argv(self) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", self.module, *self.arguments]


class RunningService:
    """A running service, which keeps its health port over restarts."""

    def __init__(self, process: Process, health_url: str) -> None:
        self._process = process
        self.health_url = health_url

    @property
    def pid(self) -> int:
        """The pid of the current process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its process is running."""
        return self._process.alive

    @property
    def log(self) -> Path:
        """The log of all its runs in this folder."""
        return self._process.log

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    async def stop(self) -> int:
        """Send SIGTERM, wait for its end, and return its exit code."""
        return await self._process.stop(STOP_SECONDS)

    async def start(self) -> None:
        """Start it again after `kill` or `stop`; see `ready`."""
        await until(lambda: not self.alive, seconds=5, what=f"the end of {self._process.name}")
        self._process = await self._process.again()

    async def restart(self) -> None:
        """Stop it if it runs, start it and wait until it is ready."""
        await self.stop()
        await self.start()
        await self.ready()

    async def ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until `/readyz` answers 200. Raises TimeoutError, or ProcessDied with the end of its log."""
        process = self._process
        async with aiohttp.ClientSession() as http:

            async def is_ready() -> bool:
                try:
                    async with http.get(f"{self.health_url}/readyz") as answer:
                        return answer.status == 200
                except aiohttp.ClientConnectionError:
                    return False

            await until(is_ready, seconds=seconds, what=f"{process.name} to be ready", every=0.05, process=process)


async def run_setup(commands: Sequence[Command], logs: Path, progress: Progress = silent) -> None:
    """Run commands to their end, one after another. Raises SetupFailed with the end of the log."""
    for command in commands:
        progress(command.name)
        log = logs / f"{command.name.replace(' ', '-')}.log"
        process = await run(command.name, command.argv, log=log, env=command.environment)
        if process.exit_code != 0:
            raise SetupFailed(
                f"the setup of {command.name} ended with exit code {process.exit_code}; "
                f"the end of {log}:\n{process.tail()}"
            )


@asynccontextmanager
async def fleet(
    commands: Sequence[Command], logs: Path, progress: Progress = silent
) -> AsyncIterator[dict[str, RunningService]]:
    """Start services in parallel, wait until all are ready, and stop them when the block ends."""
    progress(f"starting {', '.join(command.name for command in commands)}")
    services: dict[str, RunningService] = {}
    try:
        for command in commands:
            port = free_port()
            environment = {
                **command.environment,
                "CLUSTERRA_HEALTH_HOST": "127.0.0.1",
                "CLUSTERRA_HEALTH_PORT": str(port),
            }
            process = await start(command.name, command.argv, log=logs / f"{command.name}.log", env=environment)
            services[command.name] = RunningService(process, f"http://127.0.0.1:{port}")
        async with unwrapped_task_group() as waiting:
            for service in services.values():
                waiting.create_task(service.ready())
        yield services
    finally:
        await asyncio.gather(*(service.stop() for service in services.values()))
