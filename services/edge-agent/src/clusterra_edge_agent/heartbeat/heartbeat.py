"""Heartbeats: the full state of the edge, every 5 s and at once when something changed."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, Applied, Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, WorkerName, now
from clusterra_runtime.clock import generation
from clusterra_runtime.nats import bus

from clusterra_edge_agent.heartbeat.edge_facts import Facts
from clusterra_edge_agent.substrate.changes import Changes
from clusterra_edge_agent.substrate.port import Substrate, SubstrateUnavailable

log = structlog.get_logger(__name__)

RESTS = 9.0
"""After each comes a rest of so many times the CPU time that it took: they all take a tenth of a core at most. With a
few workers that is nothing; while thousands boot there are a few in a second, and the first one comes at once."""


class Heartbeats:
    """Sends the heartbeats of one cluster. While NATS is away none is kept for later: it would be old by then."""

    def __init__(
        self,
        client: bus.Client,
        ref: ClusterRef,
        substrate: Substrate,
        applied: Callable[[], Applied | None],
        version: str,
        facts: Callable[[], Facts] = Facts,
        speaks: Callable[[], bool] = lambda: True,
    ) -> None:
        """`speaks`: see `Leadership`."""
        self._client = client
        self._subject = subjects.heartbeat(ref)
        self._substrate = substrate
        self._applied = applied
        self._version = version
        self._facts = facts
        self._speaks = speaks
        self._generation = 0

    async def run(self, *changes: Changes) -> None:
        """Send one at every change and after each connect, at the latest every 5 s; runs until cancelled.

        Changes that come while one is made, and in the rest after it, are told together.
        """
        due = asyncio.Event()
        for source in changes:
            source.listen(due)
        forget = self._client.on_reconnect(due.set)
        try:
            while True:
                due.clear()
                began_seconds = time.thread_time()
                if self._client.is_connected and self._speaks():
                    await self._send()
                await asyncio.sleep(RESTS * (time.thread_time() - began_seconds))
                with suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await due.wait()
        finally:
            forget()

    async def make(self) -> Heartbeat:
        """The next heartbeat, of this moment."""
        self._generation = generation(self._generation)
        facts = self._facts()
        return Heartbeat(
            generation=self._generation,
            sent_at=now(),
            agent_version=self._version,
            substrate=self._substrate.kind,
            applied=self._applied(),
            workers=_noticed(await self._workers(), facts.leave_by),
            stuck=facts.stuck,
            nodes=facts.nodes,
            node_claims=facts.node_claims,
            prices=facts.prices,
        )

    async def _send(self) -> None:
        try:
            await bus.publish(self._client, self._subject, await self.make())
        except (bus.BusUnavailable, bus.MessageRefused) as error:
            log.warning("heartbeat_not_sent", reason=str(error))

    async def _workers(self) -> tuple[Worker, ...] | None:
        try:
            return await self._substrate.workers()
        except SubstrateUnavailable as error:
            log.warning("workers_not_listed", reason=str(error))
            return None


def _noticed(workers: tuple[Worker, ...] | None, leave_by: Mapping[WorkerName, datetime]) -> tuple[Worker, ...] | None:
    if workers is None or not leave_by:
        return workers
    return tuple(
        worker.model_copy(update={"leaves_by": leave_by[worker.name]}) if worker.name in leave_by else worker
        for worker in workers
    )
