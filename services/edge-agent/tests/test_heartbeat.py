"""Heartbeats on a real NATS server: their rate when much changes at once, and the end of the agent's login."""

import asyncio
import base64
import json
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest
import quick_agent
from agent_process import REF, USERS
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode, decode_foreign, encode
from clusterra_contracts.heartbeat import MAX_DECODED_BYTES, Heartbeat, Worker
from clusterra_contracts.identity import WorkerName, now
from clusterra_contracts.scale import DesiredState
from clusterra_edge_agent.heartbeat.builder import HeartbeatBuilder
from clusterra_edge_agent.heartbeat.heartbeat import Heartbeats
from clusterra_edge_agent.substrate.change_signal import ChangeSignal
from clusterra_edge_agent.substrate.port import DesiredCheck, SessionServer, WorkerEvent
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NO_USERS, nats_server
from clusterra_runtime.nats import bus
from edge_process import SHAPE, running_edge
from nats.aio.msg import Msg

YEAR = timedelta(days=365)
BURST_SECONDS = 2.0
BURST_CHANGES = 100
"""A burst lasts for at least this many changes and this many seconds."""


class ManyWorkers:
    """A substrate with so many workers that building a heartbeat takes time. Only the last worker changes."""

    kind: Literal["process", "kubernetes"] = "kubernetes"

    def __init__(self, count: int) -> None:
        self.change_signal = ChangeSignal()
        self._others = tuple(self._worker(f"other-{number}") for number in range(count))
        self.changed = 0

    def change(self) -> None:
        self.changed += 1
        self.change_signal.notify()

    async def workers(self) -> tuple[Worker, ...]:
        return (*self._others, self._worker(f"changed-{self.changed}"))

    def _worker(self, name: str) -> Worker:
        return Worker(name=name, shape=SHAPE, phase="running", started_at=now())

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def apply(self, desired: DesiredState, check: DesiredCheck) -> float | None:
        return None

    def pending_events(self) -> tuple[WorkerEvent, ...]:
        return ()

    async def mark_published(self, event: WorkerEvent) -> None:
        pass

    async def session_host(self, worker: WorkerName, server: SessionServer) -> str | None:
        return None


def changed_worker(message: Msg) -> str:
    """Returns the name of the worker that changed last."""
    workers = decode(Heartbeat, message.data, message.headers).workers
    assert workers is not None
    return workers[-1].name


async def test_changes_of_thousands_of_workers_are_merged_and_the_last_is_reported(tmp_path: Path) -> None:
    received: list[Msg] = []

    async def take(message: Msg) -> None:
        # Decoded only at the end, because decoding takes longer than a change and is not measured here.
        received.append(message)

    async with nats_server(tmp_path / "nats", users=USERS) as server:
        centre = await bus.connect(server.settings("centre"), "test")
        edge = await bus.connect(server.settings("edge"), "test")
        substrate = ManyWorkers(20_000)
        await centre.subscribe(subjects.heartbeat(REF), cb=take)
        heartbeats = Heartbeats(edge, REF, HeartbeatBuilder(substrate, lambda: None, "1").build)
        sending = asyncio.create_task(heartbeats.run(substrate.change_signal))
        try:
            await until(lambda: received, seconds=60, what="the first heartbeat")
            began = time.monotonic()
            while time.monotonic() < began + BURST_SECONDS or substrate.changed < BURST_CHANGES:
                substrate.change()
                await asyncio.sleep(0.001)
            seconds = time.monotonic() - began
            last = f"changed-{substrate.changed}"
            await until(
                lambda: changed_worker(received[-1]) == last,
                seconds=60,
                what="the last change to be reported",
                every=0.5,
            )
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await bus.close(edge)
            await bus.close(centre)
    assert len(received) < min(substrate.changed / 5, 8 * seconds)


def write_login(file: Path, ends_at: datetime) -> None:
    """Write the .creds file of a login. Nobody checks its signature: the server of this test lets anybody connect."""
    claims = base64.urlsafe_b64encode(json.dumps({"name": "agent", "exp": ends_at.timestamp()}).encode()).decode()
    new = file.with_suffix(".new")
    new.write_text(f"-----BEGIN NATS USER JWT-----\n{claims}.{claims}.{claims}\n------END NATS USER JWT------\n")
    new.rename(file)


async def test_heartbeats_tell_when_the_login_of_the_agent_ends(tmp_path: Path) -> None:
    file = tmp_path / "agent.creds"
    ends_at = datetime.fromtimestamp(int(time.time()), UTC) + YEAR
    later = ends_at + YEAR
    write_login(file, ends_at)
    async with running_edge(tmp_path, NO_USERS) as edge:
        edge.program = (quick_agent.__file__,)
        edge.environment = {"CLUSTERRA_NATS_CREDENTIALS_FILE": str(file)}
        await edge.start()
        first = await edge.heartbeat(lambda _beat: True)
        write_login(file, later)
        await edge.heartbeat(lambda beat: beat.login_expires_at == later)

    assert first.login_expires_at == ends_at


@pytest.mark.parametrize("years", [20, -20])
async def test_a_login_that_ends_in_decades_spoils_no_heartbeat(years: int) -> None:
    substrate = ManyWorkers(1)

    beat = await HeartbeatBuilder(substrate, lambda: None, "1", login_end=lambda: now() + years * YEAR).build()

    assert decode_foreign(Heartbeat, *encode(beat), max_bytes=MAX_DECODED_BYTES) == beat
    assert beat.login_expires_at is None
