"""The events service as a process, and what it has archived."""

import sys
from pathlib import Path

from clusterra_contracts.bus import subjects
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_lab.machine.process import Process, start, until
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed, call

REF = ClusterRef(tenant="acme", cluster="main")


async def started(environment: dict[str, str], directory: Path) -> Process:
    return await start(
        "events", [sys.executable, "-m", "clusterra_events"], log=directory / "events.log", env=environment
    )


async def history(client: Client, ref: ClusterRef = REF, limit: int = 500) -> list[Event]:
    """All archived events; empty while the service does not answer yet."""
    found: list[Event] = []
    cursor = None
    while True:
        request = ReadHistory(limit=limit, cursor=cursor)
        try:
            page = await call(client, subjects.history(ref), request, HistoryPage, timeout_seconds=5)
        except RpcFailed:  # the service has not started yet
            return []
        found.extend(page.events)
        if (cursor := page.cursor) is None:
            return found


async def archived(client: Client, count: int, process: Process, ref: ClusterRef = REF) -> list[Event]:
    async def complete() -> list[Event] | None:
        found = await history(client, ref)
        return found if len(found) >= count else None

    return await until(complete, seconds=90, what=f"{count} archived events", every=0.1, process=process)
