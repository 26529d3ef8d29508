"""The status of a lab, as another process sees it."""

import asyncio
import time
from pathlib import Path

import aiohttp
import psutil
from pydantic import BaseModel, ConfigDict

from clusterra_lab.stack.home import Home
from clusterra_lab.stack.ledger import Entry


class ProcessStatus(BaseModel):
    """The status of one process of a lab."""

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    running: bool
    ready: bool | None
    """Whether a service reports ready; None for other processes."""
    resident_mib: float | None
    up_seconds: float | None
    log: Path


class LabStatus(BaseModel):
    """The status of a lab."""

    model_config = ConfigDict(frozen=True)

    directory: Path
    up: bool
    """Whether a process runs this lab and has started everything."""
    pid: int | None
    """The pid of `lab up`."""
    addresses: dict[str, str]
    processes: tuple[ProcessStatus, ...]

    @property
    def healthy(self) -> bool:
        """Whether the lab is up, every process is running, and every service is ready."""
        return self.up and all(process.running and process.ready is not False for process in self.processes)


async def lab_status(directory: Path) -> LabStatus:
    """Read the status of the lab in a folder."""
    home = Home(directory)
    owner, summary = home.owner(), home.summary
    health = summary.health if owner and summary else {}
    entries = home.ledger.entries()
    ready = await asyncio.gather(*(_ready(health.get(entry.name)) for entry in entries))
    return LabStatus(
        directory=home.directory,
        up=owner is not None and summary is not None,
        pid=owner.pid if owner else None,
        addresses=summary.addresses if owner and summary else {},
        processes=tuple(_status(entry, is_ready) for entry, is_ready in zip(entries, ready, strict=True)),
    )


def _status(entry: Entry, ready: bool | None) -> ProcessStatus:
    resident_mib = up_seconds = None
    if running := entry.running:
        try:
            process = psutil.Process(entry.pid)
            resident_mib = round(process.memory_info().rss / 2**20, 1)
            up_seconds = round(time.time() - process.create_time(), 1)
        except psutil.NoSuchProcess:
            running = False
    return ProcessStatus(
        name=entry.name,
        pid=entry.pid,
        running=running,
        ready=ready,
        resident_mib=resident_mib,
        up_seconds=up_seconds,
        log=entry.log,
    )


async def _ready(health_url: str | None) -> bool | None:
    if health_url is None:
        return None
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as http:
        try:
            async with http.get(f"{health_url}/readyz") as answer:
                return answer.status == 200
        except (aiohttp.ClientConnectionError, TimeoutError):
            return False
