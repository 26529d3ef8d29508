"""Leases on a real NATS server: replicas that stop, die or freeze, and a server that does."""

import asyncio
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.api
import pytest
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.lease import Lease, Leases, Pace
from clusterra_runtime.settings import ServiceSettings
from nats.js import JetStreamContext

QUICK = Pace(ttl_seconds=4, renew_seconds=0.4, poll_seconds=0.2, margin_seconds=0.5)
SHARING_SECONDS = 30.0
"""Far more than a takeover takes."""
PARTITIONS = 4
STREAM = "KV_leases"


@dataclass
class Tenure:
    replica: str
    partition: int
    fence: int
    begun: float
    ended: float = float("inf")


@dataclass
class Register:
    """Who held what when, by one clock."""

    tenures: list[Tenure] = field(default_factory=list)

    def check(self) -> None:
        """No two at once, and fences rise from one to the next."""
        partitions: dict[int, list[Tenure]] = defaultdict(list)
        for tenure in self.tenures:
            partitions[tenure.partition].append(tenure)
        for of_one in partitions.values():
            of_one.sort(key=lambda tenure: tenure.begun)
            for earlier, later in pairwise(of_one):
                assert earlier.ended <= later.begun, f"{earlier} overlaps {later}"
                assert earlier.fence < later.fence


class Replica:
    """Leases in this process, whose work keeps the register."""

    def __init__(
        self,
        js: JetStreamContext,
        name: str,
        register: Register,
        *,
        pace: Pace = QUICK,
        partitions: int = PARTITIONS,
        service: str = "scaler",
    ) -> None:
        self.name = name
        self.leases = Leases(js, service, partitions, self._work, instance=name, pace=pace)
        self.failures = 0
        self._register = register
        self._task = asyncio.create_task(self.leases.run())

    @property
    def held(self) -> set[int]:
        return set(self.leases.held)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        assert self._task.cancelled(), self._task

    async def _work(self, lease: Lease) -> None:
        tenure = Tenure(self.name, lease.partition, lease.fence, time.monotonic())
        self._register.tenures.append(tenure)
        try:
            if self.failures:
                self.failures -= 1
                raise ValueError("the work fails")
            await asyncio.Event().wait()
        finally:
            tenure.ended = time.monotonic()


@pytest.fixture
def register() -> Register:
    return Register()


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    connection = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    yield connection
    await bus.close(connection)


@pytest.fixture
async def js(client: Client) -> JetStreamContext:
    context: JetStreamContext = client.jetstream()
    await context.create_key_value(bucket="leases", history=1)
    return context


@asynccontextmanager
async def replicas(
    js: JetStreamContext, register: Register, *names: str, pace: Pace = QUICK, partitions: int = PARTITIONS
) -> AsyncIterator[list[Replica]]:
    running = [Replica(js, name, register, pace=pace, partitions=partitions) for name in names]
    try:
        yield running
    finally:
        await asyncio.gather(*(replica.stop() for replica in running))


async def shared(among: Iterable[Replica], partitions: int = PARTITIONS, seconds: float = SHARING_SECONDS) -> None:
    """Wait until the replicas hold all partitions in equal shares."""
    everyone = list(among)
    share = -(-partitions // len(everyone))

    def fair() -> bool:
        counts = [len(replica.held) for replica in everyone]
        return sum(counts) == partitions and max(counts) <= share

    await until(fair, seconds=seconds, what="equal shares")


async def keys(js: JetStreamContext) -> set[str]:
    info = await js.stream_info(STREAM, subjects_filter="$KV.leases.>")
    return set(info.state.subjects or {})


async def test_one_replica_holds_all(js: JetStreamContext, register: Register) -> None:
    async with replicas(js, register, "a") as (a,):
        await shared([a])
        leases = a.leases.held
        assert {lease.partition for lease in leases.values()} == set(range(PARTITIONS))
        assert len({lease.fence for lease in leases.values()}) == PARTITIONS
        assert {tenure.fence for tenure in register.tenures} == {lease.fence for lease in leases.values()}
        assert max(lease.fence for lease in leases.values()) < 2**53
    assert a.held == set()
    register.check()


async def test_leases_outlive_their_ttl_by_renewal(js: JetStreamContext, register: Register) -> None:
    async with replicas(js, register, "a") as (a,):
        await shared([a])
        first = a.leases.held
        until_then = time.monotonic() + 2 * QUICK.ttl_seconds
        while time.monotonic() < until_then:
            assert a.leases.held == first
            await asyncio.sleep(0.02)
    assert len(register.tenures) == PARTITIONS


async def test_replicas_share_and_hand_over_in_order(js: JetStreamContext, register: Register) -> None:
    async with replicas(js, register, "a", "b") as (a, b):
        await shared([a, b])
        async with replicas(js, register, "c") as (c,):
            await shared([a, b, c])
            stopped_at = time.monotonic()
            await c.stop()
            assert c.held == set()
            await shared([a, b])
            # Faster than any expiry: it was released.
            assert time.monotonic() - stopped_at < QUICK.ttl_seconds - QUICK.renew_seconds
    register.check()
    assert await keys(js) == set(), "nothing is left of replicas that stopped in order"


async def test_a_replica_that_cannot_be_reached_is_succeeded(
    nats: NatsServer, js: JetStreamContext, register: Register
) -> None:
    cut_off = await bus.connect(ServiceSettings(nats_url=nats.url), "cut-off")
    a = Replica(cut_off.jetstream(), "a", register)
    await shared([a])
    async with replicas(js, register, "b") as (b,):
        await shared([a, b])
        await bus.close(cut_off)
        await until(lambda: not a.held, seconds=30, what="a's insight that its leases are gone")
        await shared([b])
        await a.stop()
    register.check()


async def test_a_lease_is_a_key_with_a_ttl(js: JetStreamContext, register: Register) -> None:
    async with replicas(js, register, "a", partitions=1) as (a,):
        await shared([a], partitions=1)
        created = (await js.get_msg(STREAM, subject="$KV.leases.scaler.0")).seq

        async def renewed() -> Any:
            message = await js.get_msg(STREAM, subject="$KV.leases.scaler.0")
            return message if message.seq != created else None

        message = await until(renewed, seconds=30, what="a renewal")
        assert message.headers["Nats-TTL"] == str(QUICK.ttl_seconds)
        assert json.loads(message.data)["holder"].startswith("a-")


async def test_services_do_not_disturb_each_other(js: JetStreamContext, register: Register) -> None:
    async with replicas(js, register, "a") as (scaler,):
        proxy = Replica(js, "p", Register(), service="proxy")
        await shared([proxy])
        await shared([scaler])
        await proxy.stop()


async def test_work_that_fails_is_begun_again_under_a_new_lease(js: JetStreamContext, register: Register) -> None:
    async with replicas(js, register, "a", partitions=1) as (a,):
        a.failures = 2

        def third() -> bool:
            return len(register.tenures) == 3 and a.held == {0}

        await until(third, seconds=30, what="the third attempt")
    register.check()


async def test_a_renewal_whose_answer_is_lost_loses_no_lease(js: JetStreamContext, register: Register) -> None:
    class Deaf(type(js)):  # type: ignore[misc]
        lost = 0

        async def publish(self, subject: str, *args: Any, **options: Any) -> nats.js.api.PubAck:
            answer: nats.js.api.PubAck = await super().publish(subject, *args, **options)
            replaces = (options.get("headers") or {}).get("Nats-Expected-Last-Subject-Sequence", "0")
            if replaces != "0" and Deaf.lost < 3:
                Deaf.lost += 1
                raise nats.errors.TimeoutError
            return answer

    pace = Pace(ttl_seconds=5, renew_seconds=0.4, poll_seconds=0.2, margin_seconds=0.5)
    async with replicas(Deaf(js._nc), register, "a", partitions=1, pace=pace) as (a,):
        await until(lambda: Deaf.lost == 3, seconds=30, what="three lost answers")
        until_then = time.monotonic() + pace.ttl_seconds
        while time.monotonic() < until_then:
            assert a.held == {0}
            await asyncio.sleep(0.02)
    assert len(register.tenures) == 1


async def test_a_lost_bucket_lowers_no_fence(js: JetStreamContext, register: Register) -> None:
    async with replicas(js, register, "a", partitions=1) as (a,):
        await shared([a], partitions=1)
        # Far from the beginning, so that a new bucket's revisions are lower.
        for _ in range(100):
            await js.publish("$KV.leases.other", b"")
        await js.delete_key_value("leases")
        await until(lambda: not a.held, seconds=30, what="the loss")
        await js.create_key_value(bucket="leases", history=1)
        await until(lambda: a.held == {0}, seconds=30, what="the lease in the new bucket")
    assert len(register.tenures) == 2
    register.check()


async def test_no_two_hold_at_once_while_the_server_dies_and_returns(
    nats: NatsServer, js: JetStreamContext, client: Client, register: Register
) -> None:
    second = await bus.connect(ServiceSettings(nats_url=nats.url), "second")
    overlaps: list[set[int]] = []

    async def watch(one: Replica, other: Replica) -> None:
        while True:
            if both := one.held & other.held:
                overlaps.append(both)
            await asyncio.sleep(0.001)

    async with (
        replicas(js, register, "a") as (a,),
        replicas(second.jetstream(), register, "b") as (b,),
    ):
        watching = asyncio.create_task(watch(a, b))
        await shared([a, b])
        # Back at once: most leases go on. Away for longer than they live: all are lost, and won anew.
        await nats.kill()
        await nats.restart()
        await shared([a, b])
        await nats.kill()
        await until(lambda: not a.held and not b.held, seconds=30, what="the loss of all leases")
        await until(
            lambda: all(tenure.ended < float("inf") for tenure in register.tenures), seconds=30, what="the work's end"
        )
        await nats.restart()
        await shared([a, b])
        watching.cancel()
    await bus.close(second)
    assert overlaps == []
    register.check()
    assert len(register.tenures) >= 2 * PARTITIONS


class Contender:
    """A replica in a process of its own."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @classmethod
    async def begin(cls, nats: NatsServer, directory: Path, name: str, pace: Pace) -> "Contender":
        script = Path(__file__).with_name("lease_process.py")
        argv = [sys.executable, str(script), nats.url, str(PARTITIONS), json.dumps(asdict(pace))]
        return cls(await start(name, argv, log=directory / f"{name}.log"))

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self.process.log.read_text().splitlines() if line.startswith("{")]
        return [told for line in lines if (told := json.loads(line))["event"] == event]

    async def has_acquired(self, number: int, seconds: float = 30.0) -> None:
        def acquired() -> bool:
            return len(self.events("acquired")) >= number

        await until(acquired, seconds=seconds, what=f"{number} leases of {self.process.name}", process=self.process)


async def test_a_killed_holder_is_succeeded_once_its_leases_have_expired(
    nats: NatsServer, js: JetStreamContext, tmp_path: Path, register: Register
) -> None:
    pace = Pace()
    holder = await Contender.begin(nats, tmp_path, "holder", pace)
    await holder.has_acquired(PARTITIONS)
    async with replicas(js, register, "b", pace=pace) as (b,):
        await shared([b], partitions=PARTITIONS // 2)
        holder.process.kill()
        await holder.process.wait()
        await until(lambda: b.held == set(range(PARTITIONS)), seconds=30, what="the takeover")
    assert pace.ttl_seconds + 1.2 * pace.poll_seconds < 10 - 1, "a takeover takes that and less than a second more"
    before = {told["partition"]: told["fence"] for told in holder.events("acquired")}
    assert all(tenure.fence > before[tenure.partition] for tenure in register.tenures)
    register.check()


async def test_a_frozen_holder_knows_at_once_that_it_holds_nothing(
    nats: NatsServer, js: JetStreamContext, tmp_path: Path, register: Register
) -> None:
    frozen = await Contender.begin(nats, tmp_path, "frozen", QUICK)
    try:
        await frozen.has_acquired(PARTITIONS)
        frozen.process.signal(signal.SIGSTOP)
        async with replicas(js, register, "b") as (b,):
            await shared([b])
            frozen.process.signal(signal.SIGCONT)

            def thawed() -> list[dict[str, Any]]:
                return frozen.events("thawed") if len(frozen.events("ended")) == PARTITIONS else []

            (told, *_) = await until(thawed, seconds=30, what="the end of the frozen one's work")
            assert told["held"] == []
            # It may have its share again, by leases of its own.
            await frozen.has_acquired(PARTITIONS + PARTITIONS // 2)
            assert len(b.held) <= PARTITIONS
            for event in frozen.events("acquired")[PARTITIONS:]:
                ended = [t for t in register.tenures if t.partition == event["partition"] and t.fence < event["fence"]]
                assert all(tenure.ended <= event["at"] for tenure in ended)
                assert ended
        register.check()
    finally:
        frozen.process.kill()
        await frozen.process.wait()


async def test_a_late_renewal_is_refused(js: JetStreamContext, register: Register) -> None:
    """Not by our own clock, but by the server: the old owner is made to believe that it still holds the lease."""
    async with replicas(js, register, "a", partitions=1) as (a,):
        await shared([a], partitions=1)
        tenure = a.leases._held[0]
        await js.purge_stream(STREAM, subject="$KV.leases.scaler.0")
        usurper = await js.publish("$KV.leases.scaler.0", b"{}", msg_ttl=2)
        tenure.deadline = float("inf")
        await until(lambda: register.tenures[0].ended < float("inf"), seconds=30, what="the refusal")
        stored = await js.get_msg(STREAM, subject="$KV.leases.scaler.0")
        assert (stored.seq, stored.data) == (usurper.seq, b"{}"), "neither renewed nor released by the old owner"
        await until(lambda: a.held == {0}, seconds=SHARING_SECONDS, what="the next lease")
    register.check()
