"""Leases on a thread of their own, on a real NATS server: work that blocks its event loop, and one that is stuck."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.lease_terms import Lease, Pace
from clusterra_runtime.nats.lease_thread import LeaseThread
from clusterra_runtime.settings import ServiceSettings

from .lease_replicas import QUICK, SHARDS, SHARING_SECONDS, Register, Replica, keys

ALL = set(range(SHARDS))


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    connection = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    await connection.jetstream().create_key_value(bucket="leases", history=1, direct=True)
    yield connection
    await bus.close(connection)


class Blocking:
    """A replica whose event loop a test can block."""

    def __init__(self, nats: NatsServer, pace: Pace = QUICK, stuck_seconds: float = 60.0) -> None:
        self.begun: list[Lease] = []
        self.ended: list[Lease] = []
        self.failures = 0
        settings = ServiceSettings(nats_url=nats.url)
        self.leases = LeaseThread(settings, "scaler", SHARDS, self._work, pace=pace, stuck_seconds=stuck_seconds)
        self.task = asyncio.create_task(self.leases.run())

    async def _work(self, lease: Lease) -> None:
        self.begun.append(lease)
        try:
            if self.failures:
                self.failures -= 1
                raise ValueError("the work fails")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended.append(lease)

    async def holds_all(self) -> None:
        await until(
            lambda: set(self.leases.held) == ALL and len(self.begun) - len(self.ended) == SHARDS,
            seconds=SHARING_SECONDS,
            what="all leases",
        )

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})
        assert self.task.cancelled(), self.task


def block(seconds: float) -> None:
    """Keep the interpreter busy, as a long decision does."""
    until_then = time.monotonic() + seconds
    while time.monotonic() < until_then:
        sum(range(1000))


async def test_a_blocked_event_loop_keeps_its_leases(nats: NatsServer, client: Client) -> None:
    blocking = Blocking(nats)
    await blocking.holds_all()
    before = dict(blocking.leases.held)

    block(QUICK.ttl_seconds + 2 * QUICK.margin_seconds)

    assert dict(blocking.leases.held) == before
    await asyncio.sleep(2 * QUICK.renew_seconds)
    assert dict(blocking.leases.held) == before
    assert blocking.ended == []
    await blocking.stop()
    assert sorted(lease.shard for lease in blocking.ended) == sorted(ALL)
    assert await keys(client.jetstream()) == set(), "a replica that stopped in order leaves no keys"


async def test_a_stuck_event_loop_loses_its_leases(nats: NatsServer, client: Client) -> None:
    blocking = Blocking(nats, stuck_seconds=1.0)
    await blocking.holds_all()
    before = dict(blocking.leases.held)

    block(1.0 + QUICK.ttl_seconds)

    assert not blocking.leases.held
    await until(lambda: len(blocking.ended) == SHARDS, seconds=SHARING_SECONDS, what="the end of the work")
    await blocking.holds_all()
    assert all(lease.fence > before[shard].fence for shard, lease in blocking.leases.held.items())
    await blocking.stop()


async def test_failed_work_is_restarted_and_shares_are_equal(nats: NatsServer, client: Client) -> None:
    blocking = Blocking(nats)
    blocking.failures = 2
    await blocking.holds_all()
    assert len(blocking.ended) == 2

    other = Replica(client, "other", Register())
    await until(lambda: len(blocking.leases.held) == len(other.held) == SHARDS // 2, seconds=90, what="shares")
    await other.stop()
    await blocking.holds_all()
    await blocking.stop()


async def test_it_stops_while_nats_is_away(nats: NatsServer, client: Client) -> None:
    await nats.kill()
    blocking = Blocking(nats)
    await asyncio.sleep(0.1)

    await asyncio.wait_for(blocking.stop(), 90)

    await nats.restart()
    assert blocking.begun == []
